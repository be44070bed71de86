-- job_submit_vgpu.lua: the bridge between slurmctld and vgpu-select.
--
-- A site's job_submit.lua takes it in with two lines for each function:
--
--     local vgpu = dofile("/usr/share/slurm-vgpu/job_submit_vgpu.lua")
--
--     function slurm_job_submit(job_desc, part_list, submit_uid)
--         local verdict = vgpu.submit(job_desc, part_list, submit_uid)
--         if verdict ~= slurm.SUCCESS then return verdict end
--         ...
--     function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
--         local verdict = vgpu.modify(job_desc, job_rec, part_list, modify_uid)
--         if verdict ~= slurm.SUCCESS then return verdict end
--
-- Slurm holds locks while this runs, and jobs are submitted one at a time: so only requests that
-- mention vGPUs leave Lua, the answer has a deadline, and after a missed one nobody is asked for a
-- while. It never raises an error.

-- luacheck: std lua51, read_globals slurm

local vgpu = {
    socket = "/run/vgpu-select/select.sock",
    deadline = 0.1, -- seconds for the whole conversation
    pause = 10, -- seconds for which nobody is asked after an answer that was late or wrong
    on_failure = "accept", -- or "reject": what becomes of jobs that cannot be asked about
}

local VERSION = "vgpu1"
local REFUSED = 2072 -- ESLURM_INVALID_GRES
local LENGTH = 4 -- hexadecimal digits in front of an answer
local OPTION = "^_SLURM_SPANK_OPTION_vgpu_vgpu_(%w+)=(.*)$"
local REQUESTS = { "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task" }
local TEXTS = { "features", "prefer", "admin_comment", "req_nodes", "exc_nodes" }
local NUMBERS = {
    nodes = "min_nodes", tasks = "num_tasks", cpus_per_task = "cpus_per_task",
    mem_per_node = "min_mem_per_node", mem_per_cpu = "min_mem_per_cpu",
}
-- What narrows the choice of nodes in ways that vgpu-select does not know.
local PICKY = { "reservation", "sockets_per_node", "cores_per_socket", "threads_per_core" }
local OPTIONS = { "comm", "affinity", "mem", "colocate" }
local MAY_SET = {
    features = true, prefer = true, exc_nodes = true, admin_comment = true,
    tres_per_node = true, tres_per_job = true, tres_per_socket = true, tres_per_task = true,
}

local asked_again_at = 0

-- --- what the job says ---------------------------------------------------------------------------

local function escape(text)
    return (text:gsub("[%%\t\n\r]", function(c) return string.format("%%%02X", c:byte()) end))
end

local function unescape(text)
    return (text:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end))
end

-- Whether a list such as "gres:gpu:1,gres:vgpu:2" asks for vGPUs.
local function asks(list)
    for entry in tostring(list or ""):gmatch("[^,]+") do
        if (entry:gsub("^gres[:/]", "") .. ":"):match("^vgpu[:=]") then return true end
    end
    return false
end

local function asks_any(job_desc)
    for _, name in ipairs(REQUESTS) do
        if asks(job_desc[name]) then return true end
    end
    return false
end

-- The options of the SPANK plugin: comm, affinity, mem, ...
local function options(job_desc)
    local found = {}
    for _, word in pairs(job_desc.spank_job_env or {}) do
        local name, value = tostring(word):match(OPTION)
        if name then found[name] = value ~= "" and value or "yes" end
    end
    return found
end

-- A number that is set: Slurm's "not set" is near the top of 16 or 32 bits.
local function number(value)
    value = tonumber(value)
    if not value or value < 1 or value == 65534 or value == 65535 or value >= 4294967294 then
        return nil
    end
    return string.format("%d", value)
end

local function default_partition(part_list)
    for name, part in pairs(part_list or {}) do
        if part.flag_default == 1 then return name end
    end
    return nil
end

local function line_of(fields)
    local words = { VERSION }
    for name, value in pairs(fields) do
        words[#words + 1] = name .. "=" .. escape(tostring(value))
    end
    return table.concat(words, "\t") .. "\n"
end

local function fields_of(job_desc, names, fields)
    for _, name in ipairs(names) do
        local value = job_desc[name]
        if value and value ~= "" then fields[name] = value end
    end
    return fields
end

local function submitted(job_desc, part_list)
    local fields = fields_of(job_desc, TEXTS, fields_of(job_desc, REQUESTS, { op = "submit" }))
    local given = options(job_desc)
    for _, name in ipairs(OPTIONS) do
        fields[name] = given[name]
    end
    fields.partition = job_desc.partition or default_partition(part_list)
    for name, source in pairs(NUMBERS) do
        fields[name] = number(job_desc[source])
    end
    for _, name in ipairs(PICKY) do
        local value = job_desc[name]
        if value and value ~= "" and (type(value) ~= "number" or number(value)) then
            fields.picky = name
        end
    end
    return fields
end

local function modified(job_desc, job_rec)
    local fields = fields_of(job_desc, { "features" }, fields_of(job_desc, REQUESTS, { op = "modify" }))
    fields.partition = job_desc.partition or job_rec.partition
    fields.admin_comment = job_rec.admin_comment
    return fields
end

-- --- the conversation ----------------------------------------------------------------------------

-- The answer to a line, or nil with what went wrong and whether to stay away for a while.
local function converse(line)
    local socket = require("socket")
    local unix = require("socket.unix")
    local client = type(unix) == "table" and (unix.stream or unix.tcp)() or unix()
    local until_time = socket.gettime() + vgpu.deadline
    local function step(name, ...)
        client:settimeout(math.max(0, until_time - socket.gettime()), "t")
        return client[name](client, ...)
    end
    local function talk()
        local ok, err = step("connect", vgpu.socket)
        if not ok then return nil, err, err == "timeout" end
        ok, err = step("send", line)
        if not ok then return nil, err, true end
        local head, why = step("receive", LENGTH)
        local length = head and head:match("^%x+$") and tonumber(head, 16)
        if not length then return nil, why or "an answer that is none", true end
        local text, cut = step("receive", length)
        if not text then return nil, cut, true end
        return text
    end
    local answer, err, stay_away = talk()
    client:close()
    return answer, err, stay_away
end

-- The verb and the fields of an answer, or nil.
local function parsed(answer)
    local verb, fields = nil, {}
    for word in (answer .. "\t"):gmatch("([^\t]*)\t") do
        if not verb then
            verb = word
        else
            local name, value = word:match("^([%w_]+)=(.*)$")
            if not name then return nil end
            fields[name] = unescape(value)
        end
    end
    if verb == "accept" or (verb == "refuse" and fields.message) then return verb, fields end
    return nil
end

local function failed(why, stay_away)
    if stay_away then
        asked_again_at = os.time() + vgpu.pause
        slurm.log_info("vgpu: vgpu-select: %s; nobody is asked for %d s", tostring(why), vgpu.pause)
    end
    if vgpu.on_failure ~= "reject" then return slurm.SUCCESS end
    slurm.log_user("vgpu: the vGPU service does not answer (%s); please try again later", tostring(why))
    return slurm.ERROR
end

local function ask(fields, job_desc)
    if os.time() < asked_again_at then return failed("it did not answer before", false) end
    local answer, err, stay_away = converse(line_of(fields))
    if not answer then return failed(err, stay_away) end
    local verb, found = parsed(answer)
    if not verb then return failed("an answer that is none", true) end
    if verb == "refuse" then
        slurm.log_user("vgpu: %s", found.message)
        return REFUSED
    end
    for name, value in pairs(found) do
        if MAY_SET[name] then job_desc[name] = value end
    end
    return slurm.SUCCESS
end

-- Run a function; an error in it is one sentence in slurmctld's log.
local function guarded(work, ...)
    local ok, verdict = pcall(work, ...)
    if ok then return verdict end
    local fine, result = pcall(failed, verdict, true)
    return fine and result or slurm.SUCCESS
end

-- --- what Slurm calls ----------------------------------------------------------------------------

function vgpu.submit(job_desc, part_list, _)
    return guarded(function()
        if not asks_any(job_desc) then return slurm.SUCCESS end
        return ask(submitted(job_desc, part_list), job_desc)
    end)
end

-- Changes made by root pass: the suite's own come that way.
function vgpu.modify(job_desc, job_rec, _, modify_uid)
    return guarded(function()
        local ours = asks_any(job_desc) or (job_desc.features and asks_any(job_rec))
        if modify_uid == 0 or not ours then return slurm.SUCCESS end
        return ask(modified(job_desc, job_rec), job_desc)
    end)
end

return vgpu
