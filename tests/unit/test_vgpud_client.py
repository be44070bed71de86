"""The client's tables are the structs of spank/proto/wire.h."""

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from pysched import vgpud_client

ROOT = Path(__file__).resolve().parents[2]
STRUCTS = {
    "vgpu_head": vgpud_client.Head,
    "vgpu_desc": vgpud_client.Desc,
    "vgpu_bind_request": vgpud_client.BindRequest,
    "vgpu_bind_reply": vgpud_client.BindReply,
    "vgpu_unbind_request": vgpud_client.UnbindRequest,
    "vgpu_status_reply": vgpud_client.StatusReply,
    "vgpu_list_request": vgpud_client.ListRequest,
    "vgpu_list_reply": vgpud_client.ListReply,
    "vgpu_policy_request": vgpud_client.PolicyRequest,
}


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, int]]:
    """struct.field -> (offset, size), and struct -> (0, size), as the C compiler has them."""
    rows = []
    for struct, table in STRUCTS.items():
        rows.append(f'{{"{struct}", 0, sizeof(struct {struct})}},')
        for name, *_ in table._fields_:
            place = f"offsetof(struct {struct}, {name})"
            rows.append(f'{{"{struct}.{name}", {place}, sizeof(((struct {struct} *)0)->{name})}},')
    folder = tmp_path_factory.mktemp("layout")
    (folder / "layout.c").write_text(
        '#include "proto/wire.h"\n#include <stdio.h>\n'
        "static const struct {const char *name; size_t offset, size;} rows[] = {\n"
        + "\n".join(rows)
        + "};\nint main(void) {for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)"
        ' printf("%s %zu %zu\\n", rows[i].name, rows[i].offset, rows[i].size);}\n'
    )
    program = folder / "layout"
    subprocess.run(["cc", f"-I{ROOT}/spank", "-o", program, folder / "layout.c"], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {
        name: (int(offset), int(size))
        for name, offset, size in map(str.split, printed.splitlines())
    }


@pytest.mark.parametrize("struct", STRUCTS)
def test_a_table_lays_its_fields_out_as_the_c_compiler_does(
    struct: str, layout: dict[str, tuple[int, int]]
) -> None:
    table = STRUCTS[struct]
    assert ctypes.sizeof(table) == layout[struct][1]
    for name, *_ in table._fields_:
        field = getattr(table, name)
        assert (field.offset, field.size) == layout[f"{struct}.{name}"], name


@pytest.mark.parametrize("struct", STRUCTS)
def test_a_table_has_every_field_of_its_struct(struct: str) -> None:
    header = (ROOT / "spank/proto/wire.h").read_text()
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    body = re.search(rf"struct {struct} \{{(.*?)\n\}};", header, re.DOTALL)
    assert body is not None
    declared = re.findall(r"(\w+)(?:\[\w+\])?\s*[,;]", body[1])
    assert declared == [name for name, *_ in STRUCTS[struct]._fields_]


def test_constants_are_those_of_the_header() -> None:
    header = (ROOT / "spank/proto/wire.h").read_text()
    for name, value in {
        "WIRE_MAGIC": vgpud_client.MAGIC,
        "WIRE_MAJOR": vgpud_client.MAJOR,
        "MAX_SLOTS": vgpud_client.MAX_SLOTS,
        "MAX_GPUS": vgpud_client.MAX_GPUS,
    }.items():
        match = re.search(rf"#define VGPU_{name}\s+(\w+)", header)
        assert match is not None
        assert int(match[1].rstrip("u"), 0) == value
    for name in ("BIND", "UNBIND_STEP", "UNBIND_JOB", "LIST", "POLICY", "OK", "NOT_FOUND"):
        match = re.search(rf"VGPU_{name} = (\d+)", header)
        assert match is not None
        assert int(match[1]) == getattr(vgpud_client, name)


def test_a_vgpud_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        vgpud_client.VgpudError, match=r"vgpud does not answer at .*/vgpud.sock: No such file"
    ):
        list(vgpud_client.Vgpud(tmp_path).bindings())
