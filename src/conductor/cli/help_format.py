"""The help of commands: commands sorted by purpose, and placeholders in words instead of Python's types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from typer.core import TyperArgument, TyperCommand, TyperGroup

#: The section of commands that no other section names.
OTHER = "Other"


class PlainCommand(TyperCommand):
    """A command whose help shows placeholders in words."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(_usage(param) for param in self.get_params(ctx) if isinstance(param, TyperArgument))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self.get_params(ctx), formatter)


class PlainGroup(TyperGroup):
    """A group that lists its commands by purpose, each with the whole first paragraph of its help."""

    #: Title of a section → its commands.
    sections: ClassVar[Mapping[str, Sequence[str]]] = {}

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, names in _complete(self.sections, self.list_commands(ctx)).items():
            with formatter.section(title):
                formatter.write_dl([(name, _first_paragraph(self.commands[name])) for name in names])
        _write_parameters(self.get_params(ctx), formatter)


def make_group_class(sections: Mapping[str, Sequence[str]]) -> type[TyperGroup]:
    """Return the class of a group with these sections."""
    return type("SectionedGroup", (PlainGroup,), {"sections": sections})


def _complete(sections: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, list[str]]:
    listed = {title: [name for name in wanted if name in names] for title, wanted in sections.items()}
    rest = [name for name in names if not any(name in wanted for wanted in listed.values())]
    listed[OTHER if sections else "Commands"] = rest
    return {title: found for title, found in listed.items() if found}


def _first_paragraph(command: Any) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def _usage(argument: TyperArgument) -> str:
    name = _argument_name(argument) + ("..." if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


def _argument_name(argument: TyperArgument) -> str:
    return argument.metavar or str(argument.name).upper()


def _write_parameters(params: Sequence[Any], formatter: Any) -> None:
    arguments = [param for param in params if isinstance(param, TyperArgument)]
    if arguments:
        with formatter.section("Arguments"):
            formatter.write_dl([(_argument_name(one), _describe(one)) for one in arguments])
    options = [param for param in params if not isinstance(param, TyperArgument) and not param.hidden]
    with formatter.section("Options"):
        formatter.write_dl([(_option_names(one), _describe(one)) for one in options])


def _option_names(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=lambda name: name.startswith("--")))
    if option.secondary_opts:
        names += f" / {', '.join(option.secondary_opts)}"
    return names if option.is_flag else f"{names} {_placeholder(option)}"


def _placeholder(option: Any) -> str:
    """Return the option's own placeholder, or the last word of its name: PORT for `--metrics-port`."""
    longest = max(option.opts, key=len)
    return str(option.metavar or longest.rpartition("-")[2].upper())


def _describe(param: Any) -> str:
    return "  ".join([param.help or "", *_facts(param)]).strip()


def _facts(param: Any) -> Iterator[str]:
    """Yield the default value and the allowed range of an option in brackets; nothing if the help shows neither."""
    limits = param if hasattr(param, "min") else param.type
    least, most = getattr(limits, "min", None), getattr(limits, "max", None)
    default = param.default if param.show_default and not getattr(param, "is_flag", False) else None
    parts = []
    if default not in (None, "", [], ()):
        parts.append(f"default: {default}")
    if least is not None and most is not None:
        parts.append(f"{least} to {most}")
    elif least is not None and least > 0:
        parts.append(f"at least {least}")
    if parts:
        yield f"[{'; '.join(parts)}]"
