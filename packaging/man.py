"""Write man pages: of commands and services from their --help, of file formats from docs/*.md.

Usage: man.py FOLDER VGPUD
"""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pysched import VERSION
from pysched.cli.main import main

DOCS = Path(__file__).resolve().parents[1] / "docs"
FORMATS = {"vgpu.conf": ("vgpu.conf", "which slot of GRES vgpu is what"),
           "plan": ("vgpu-plan", "what Slurm's configuration of GPUs is made from")}  # fmt: skip
# Services: the arguments of Python that print their help, and what they are for.
SERVICES = {"vgpud": ([], "vGPUs of a node: bindings, memory quotas, GPU time"),
            "vgpu-agent": (["-m", "pysched.agent"], "topology of a node, placement of its vGPUs"),
            "vgpu-select": (["-m", "pysched.select"], "checks requests for vGPUs")}  # fmt: skip


def write(folder: Path, vgpud: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for words, command in commands(("vgpu",), main):
        (folder / f"{'-'.join(words)}.1").write_text(command_page(words, command))
    for name, (module, purpose) in SERVICES.items():
        program = [sys.executable, *module] if module else [vgpud]
        (folder / f"{name}.8").write_text(service_page(name, purpose, program))
    for source, (name, purpose) in FORMATS.items():
        text = (DOCS / f"{source}.md").read_text()
        (folder / f"{name}.5").write_text(format_page(name, purpose, text))


def commands(
    words: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and all below it, each with the words that call it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words[-1])
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from commands((*words, name), below)


# --- pages of commands ----------------------------------------------------------------------------


def command_page(words: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(words))
    title, purpose = "-".join(words), command.get_short_help_str(200).rstrip(".")
    usage = " ".join(command.collect_usage_pieces(context))
    text, examples = _help(inspect.cleandoc(command.help or ""))
    parts = [
        _title(title, 1),
        f".SH NAME\n{_escape(title)} \\- {_escape(purpose)}\n",
        f".SH SYNOPSIS\n.B {_escape(' '.join(words))}\n{_escape(usage)}\n",
        f".SH DESCRIPTION\n{text}",
    ]
    options = [
        record for p in command.get_params(context) if (record := p.get_help_record(context))
    ]
    if options:
        parts.append(".SH OPTIONS\n" + "".join(_item(name, text) for name, text in options))
    if isinstance(command, click.Group):
        below = [
            (name, command.get_command(context, name)) for name in command.list_commands(context)
        ]
        listed = [(f"vgpu {' '.join((*words[1:], n))}", c) for n, c in below if c]
        parts.append(
            ".SH COMMANDS\n" + "".join(_item(name, c.get_short_help_str(200)) for name, c in listed)
        )
    if examples:
        parts.append(f".SH EXAMPLES\n{examples}")
    if command.epilog:
        parts.append(".SH EXIT STATUS\n" + _escape(command.epilog.partition(": ")[2]) + "\n")
    parts.append(".SH SEE ALSO\n.BR vgpu (1),\n.BR vgpu.conf (5),\n.BR vgpu\\-plan (5)\n")
    return "".join(parts)


def _help(text: str) -> tuple[str, str]:
    """Description and examples; a paragraph that begins with a \\b line is kept as it stands."""
    description, examples = "", ""
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        if lines[0] != "\b":
            description += f".PP\n{_escape(' '.join(paragraph.split()))}\n"
        elif lines[1] == "Examples:":
            examples += _verbatim(line.strip() for line in lines[2:])
        else:
            description += _verbatim(line.strip() for line in lines[1:])
    return description, examples


# --- pages of services ----------------------------------------------------------------------------


def service_page(name: str, purpose: str, program: list[str]) -> str:
    command = [*program, "--help"]
    env = {**os.environ, "COLUMNS": "78"}
    text = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    return "".join(
        [
            _title(name, 8),
            f".SH NAME\n{_escape(name)} \\- {_escape(purpose)}\n",
            f".SH DESCRIPTION\n{_verbatim(iter(text.splitlines()))}",
            f".SH FILES\n.I /etc/default/{_escape(name)}\n(options of the service)\n",
            ".SH SEE ALSO\n.BR vgpu (1),\n.BR vgpu.conf (5)\n",
        ]
    )


# --- pages of formats -----------------------------------------------------------------------------


def format_page(name: str, purpose: str, text: str) -> str:
    """A page from Markdown: headings, paragraphs, indented blocks, lists and tables."""
    parts = [
        _title(name, 5),
        f".SH NAME\n{_escape(name)} \\- {_escape(purpose)}\n.SH DESCRIPTION\n",
    ]
    for block in re.split(r"\n{2,}", text.partition("\n")[2].strip("\n")):
        lines = block.splitlines()
        if block.startswith("#"):
            heading = lines[0].lstrip("#").strip()
            parts.append(f".SH {_inline(heading).upper()}\n")
            lines = lines[1:]
        if not lines:
            continue
        if lines[0].startswith("    "):
            parts.append(_verbatim(line[4:] for line in lines))
        elif lines[0].startswith("|"):
            parts += [_item(*row) for row in _rows(lines[2:])]
        elif lines[0].startswith("- "):
            items = re.split(r"\n- ", "\n".join(lines)[2:])
            parts += [f".IP \\(bu 2\n{_inline(' '.join(item.split()))}\n" for item in items]
        else:
            parts.append(f".PP\n{_inline(' '.join(lines))}\n")
    parts.append(".SH SEE ALSO\n.BR vgpu (1),\n.BR vgpu\\-config\\-generate (1)\n")
    return "".join(parts)


def _rows(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        first, *rest = [cell.strip() for cell in line.strip("|").split("|")]
        yield first, ": ".join(rest)


def _inline(text: str) -> str:
    """Bold, code and links of Markdown."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = _escape(text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"\\fB\1\\fR", text)
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)


# --- troff ----------------------------------------------------------------------------------------


def _title(name: str, section: int) -> str:
    return f'.TH "{name.upper()}" "{section}" "" "slurm-vgpu {VERSION}" "slurm-vgpu"\n'


def _item(name: str, text: str) -> str:
    return f".TP\n.B {_inline(name)}\n{_inline(text)}\n"


def _verbatim(lines: Iterator[str]) -> str:
    return ".PP\n.nf\n.RS 4\n" + "".join(f"{_escape(line)}\n" for line in lines) + ".RE\n.fi\n"


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(
        f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.split("\n")
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2])
