"""The language of templates: a part of Jinja2's in which nothing can be reached, called or made larger than is allowed.

The source is parsed by Jinja2; what is not in `ALLOWED` is refused with its line. Loops are the only thing that repeats,
and each pays for its turns beforehand. Whatever makes texts longer pays for them, and ends at a limit.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, nodes, pass_context
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from reminders.providers.template_filters import FILTERS, concat, written
from reminders.providers.template_work import (
    LARGEST_NUMBER,
    LONGEST_VALUE,
    STEP,
    Misuse,
    kept_short,
    present,
    within,
    work_of,
)

NAMES = ("channel", "data", "due_at", "kind", "locale", "reference", "slot", "tenant_id", "user_id", "zone")
"""What templates can name."""
TESTS = ("boolean", "defined", "mapping", "none", "number", "sequence", "string", "undefined")
"""Those that are left out, such as `odd`, would work on texts too, and take `%` for a format."""
ALLOWED: frozenset[type[nodes.Node]] = frozenset(
    {
        nodes.Add, nodes.And, nodes.Assign, nodes.AssignBlock, nodes.Compare, nodes.Concat, nodes.CondExpr, nodes.Const,
        nodes.Dict, nodes.Div, nodes.Filter, nodes.FloorDiv, nodes.For, nodes.Getattr, nodes.Getitem, nodes.If, nodes.Keyword,
        nodes.List, nodes.Mod, nodes.Mul, nodes.Name, nodes.Neg, nodes.Not, nodes.Operand, nodes.Or, nodes.Output, nodes.Pair,
        nodes.Pos, nodes.Slice, nodes.Sub, nodes.Template, nodes.TemplateData, nodes.Test, nodes.Tuple,
    }
)  # fmt: skip
DEEPEST = 80
MOST_NODES = 5_000
_CHARACTERS_OF_DATA = 8_192
_OF_A_LOOP = frozenset({"first", "index", "index0", "last", "length", "revindex", "revindex0"})
_OPENERS = {"comment_begin": "a comment", "raw_begin": "a raw block"}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


class Missing(StrictUndefined):
    """Raises wherever it is used. Its message names what the template asks for, never what the data say."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return self._undefined_hint
        if self._undefined_obj is missing:
            return f"{self._undefined_name} has no value here"
        return f"{self._undefined_name} is missing in the data"


@pass_context
def _output(context: Context, value: Any) -> str:
    text = written(value)
    work_of(context).spend(len(text))
    return text


@pass_context
def _each(context: Context, value: Any, units: int) -> list[Any] | tuple[Any, ...]:
    """What a loop goes over, all its turns paid for."""
    if isinstance(present(value), Mapping):
        value = list(value)
    if not isinstance(value, list | tuple):
        raise Misuse("a loop goes over a list, or over the names of an object")
    work_of(context).spend(len(value) * units)
    return value


@pass_context
def _weighed(context: Context, value: Any) -> Any:
    """What is compared, its length paid for."""
    if isinstance(value, str):
        work_of(context).spend(len(value))
    elif isinstance(value, list | tuple | dict):
        work_of(context).spend(_CHARACTERS_OF_DATA)
    return value


def _single(value: Any) -> Any:
    """What is put into a list or an object: no list or object, whose copies in copies would grow beyond all bounds."""
    if isinstance(value, list | tuple | dict):
        raise Misuse("a list or an object cannot be put into another one")
    return value


_OWN_FILTERS: dict[str, Callable[..., Any]] = {
    "_concat": concat,
    "_each": _each,
    "_single": _single,
    "_weighed": _weighed,
}


class Language(ImmutableSandboxedEnvironment):
    """Jinja2's environment, with values of JSON only: nothing of Python can be reached through them."""

    intercepted_binops = frozenset(_OPERATORS)
    intercepted_unops = frozenset({"+", "-"})

    def __init__(self, *, html: bool) -> None:
        super().__init__(
            undefined=Missing,
            autoescape=html,
            finalize=_output,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            # Or else constants would be worked out while it is compiled, when nothing is counted.
            optimized=False,
            cache_size=0,
        )
        self.globals.clear()
        self.filters = {**FILTERS, **_OWN_FILTERS}
        self.tests = {name: self.tests[name] for name in TESTS}

    def parse(self, source: str, name: str | None = None, filename: str | None = None) -> nodes.Template:
        """As Jinja2 does, which takes a comment or raw block that the end of the text opens for nothing."""
        tree = super().parse(source, name, filename)
        last = deque(self.lex(source), maxlen=1)
        if last and last[0][1] in _OPENERS:
            raise TemplateSyntaxError(f"{_OPENERS[last[0][1]]} is opened and never closed", last[0][0])
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A value of an object by its name, or what a loop knows of its turn."""
        if isinstance(obj, LoopContext) and attribute in _OF_A_LOOP:
            return getattr(obj, attribute)
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return self.undefined(obj=present(obj), name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """A value by a name or place that is worked out. What it came to is data, and not told."""
        try:
            if isinstance(argument, str) if isinstance(present(obj), Mapping) else isinstance(obj, list | tuple | str):
                return obj[argument]
        except (LookupError, TypeError):
            pass
        return self.undefined("what is asked for in brackets is missing in the data")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Numbers within 64 bits, and texts put together. Raises `Misuse` for all else."""
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            if len(left) + len(right) > LONGEST_VALUE:
                raise Misuse(f"a text comes to more than {LONGEST_VALUE:,} characters")
            return kept_short(left + right, context)
        _check_numbers(operator, left, right)
        try:
            result = _OPERATORS[operator](left, right)
        except ZeroDivisionError:
            raise Misuse("a division by zero") from None
        return within(result)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:  # noqa: ARG002 - Jinja2's signature
        """Numbers only."""
        _check_numbers(operator, arg)
        return within(-arg if operator == "-" else arg)


def _check_numbers(operator: str, *values: Any) -> None:
    for value in values:
        if isinstance(present(value), bool) or not isinstance(value, int | float):
            raise Misuse(f"{operator} takes numbers; texts are put together with ~")


def checked(tree: nodes.Template, language: Language) -> nodes.Template:
    """The tree with its costs written into it. Raises `TemplateSyntaxError` for what the language does not have."""
    stored = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
    count = _check(tree, {*NAMES, *stored}, language, 0)
    if count > MOST_NODES:
        raise TemplateSyntaxError(f"it has more than {MOST_NODES:,} steps", 1)
    costed = _Costs(language).visit(tree)
    assert isinstance(costed, nodes.Template)
    return costed


def _check(node: nodes.Node, known: Iterable[str], language: Language, depth: int) -> int:
    """How many nodes it has."""
    line = node.lineno or 1
    if type(node) not in ALLOWED:
        raise TemplateSyntaxError(_not_allowed(node), line)
    if depth > DEEPEST:
        raise TemplateSyntaxError("it is nested too deeply", line)
    match node:
        case nodes.Name(name=name, ctx=ctx):
            if name.startswith("_") or (ctx == "load" and name not in known):
                raise TemplateSyntaxError(f"there is no name {name[:60]}; there are {', '.join(NAMES)}", line)
            if ctx == "store" and name in {*NAMES, "loop"}:
                raise TemplateSyntaxError(f"{name} has its meaning already; set another name", line)
        case nodes.Filter(name=name):
            if name not in FILTERS or node.dyn_args or node.dyn_kwargs or node.node is None:
                raise TemplateSyntaxError(f"there is no filter {name[:60]} here; there are {', '.join(FILTERS)}", line)
        case nodes.Test(name=name):
            if name not in TESTS or node.dyn_args or node.dyn_kwargs:
                raise TemplateSyntaxError(f"there is no test {name[:60]}; there are {', '.join(TESTS)}", line)
        case nodes.Const(value=value):
            if isinstance(value, int | float) and not abs(value) < LARGEST_NUMBER:
                raise TemplateSyntaxError("a number is too large", line)
        case nodes.For(recursive=True):
            raise TemplateSyntaxError("a loop cannot be recursive", line)
        case nodes.AssignBlock(filter=nodes.Filter()):
            raise TemplateSyntaxError("a set block has no filter", line)
        case nodes.For():
            known = {*known, "loop"}
    return 1 + sum(_check(child, known, language, depth + 1) for child in node.iter_child_nodes())


def _not_allowed(node: nodes.Node) -> str:
    if isinstance(node, nodes.Call):
        return "nothing can be called; use filters"
    if isinstance(node, nodes.Pow):
        return "there is no operator **"
    if isinstance(node, nodes.Include | nodes.Import | nodes.FromImport | nodes.Extends):
        return "a template cannot take in another one (include, import, extends)"
    return f"templates have no {type(node).__name__.lower()} here"


def _units(found: Iterable[nodes.Node]) -> int:
    """What one pass over the nodes takes, without the turns of the loops in them."""
    total = 0
    for node in found:
        total += STEP + (len(node.data) if isinstance(node, nodes.TemplateData) else 0)
        total += _units([node.iter] if isinstance(node, nodes.For) else node.iter_child_nodes())
    return total


class _Costs(NodeTransformer):
    """Puts a filter of our own around whatever must be paid for or looked at."""

    def __init__(self, language: Language) -> None:
        self._language = language

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja2 finds it by this name
        units = STEP + _units([*node.body, *([node.test] if node.test else [])])
        self.generic_visit(node)
        node.iter = self._around(node.iter, "_each", nodes.Const(units, lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._around(nodes.List(node.nodes, lineno=node.lineno), "_concat")

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.expr = self._around(node.expr, "_weighed")
        for operand in node.ops:
            operand.expr = self._around(operand.expr, "_weighed")
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.items = [self._around(item, "_single") for item in node.items]
        return node

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.ctx == "load":
            node.items = [self._around(item, "_single") for item in node.items]
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.value = self._around(node.value, "_single")
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            return nodes.Getattr(node.node, node.arg.value, node.ctx, lineno=node.lineno)
        return self._around(node, "_weighed") if isinstance(node.arg, nodes.Slice) else node

    def _around(self, node: nodes.Node, name: str, *given: nodes.Expr) -> nodes.Filter:
        assert isinstance(node, nodes.Expr)
        around = nodes.Filter(node, name, list(given), [], None, None, lineno=node.lineno)
        around.set_environment(self._language)
        return around
