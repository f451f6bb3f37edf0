"""The part of PromQL that our alerts use, on series of samples: selectors, offset, rate and increase, absent,
arithmetic, comparisons, and/or/unless. What it does not know it refuses. promql_parser reads the expressions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import promql_parser as ast

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
LOOKBACK_S = 300.0
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else float("nan") if not a else float("inf") * (1 if a > 0 else -1),
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip


@dataclass
class Series:
    """Samples are (seconds, value), in order."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]

    @classmethod
    def written(cls, series: str, values: str, interval_s: float) -> Series:
        """As promtool's tests write them: `a{b="c"}` and `1x3 0+60x9 _x2`."""
        selector = ast.parse(series)
        labels = {"__name__": selector.name} | {m.name: m.value for m in selector.matchers.matchers}
        numbers = list(_expanded(values))
        return cls(labels, [(i * interval_s, v) for i, v in enumerate(numbers) if v is not None])


def _expanded(values: str) -> Iterator[float | None]:
    for word in values.split():
        match = re.fullmatch(r"(_|-?[\d.]+)(?:([+-][\d.]+))?(?:x(\d+))?", word)
        assert match, word
        start, step, times = match.groups()
        if start == "_":
            yield from [None] * int(times or 1)
        else:
            yield from (float(start) + n * float(step or 0) for n in range(int(times or 0) + 1))


@dataclass
class World:
    series: list[Series] = field(default_factory=list)

    def evaluate(self, expression: Any, at_s: float) -> Vector | float:
        """`expression` is text or what promql_parser makes of it."""
        e = ast.parse(expression) if isinstance(expression, str) else expression
        if isinstance(e, ast.NumberLiteral):
            return float(e.val)
        if isinstance(e, ast.ParenExpr):
            return self.evaluate(e.expr, at_s)
        if isinstance(e, ast.VectorSelector):
            return self._instant(e, at_s)
        if isinstance(e, ast.Call):
            return self._call(e, at_s)
        if isinstance(e, ast.BinaryExpr):
            return self._binary(e, at_s)
        raise NotImplementedError(type(e).__name__)

    def _matching(self, e: Any) -> Iterator[Series]:
        wanted = [(m.name, m.value, m.op) for m in e.matchers.matchers]
        assert all(op == ast.MatchOp.Equal for *_, op in wanted), "only = is known"
        for one in self.series:
            if one.labels["__name__"] == e.name and all(one.labels.get(k, "") == v for k, v, _ in wanted):
                yield one

    def _instant(self, e: Any, at_s: float) -> Vector:
        at_s -= _seconds(e.offset)
        found = {}
        for one in self._matching(e):
            known = [(t, v) for t, v in one.samples if at_s - LOOKBACK_S < t <= at_s]
            if known:
                found[frozenset(one.labels.items())] = known[-1][1]
        return found

    def _call(self, e: Any, at_s: float) -> Vector:
        if e.func.name == "absent":
            return {} if self.evaluate(e.args[0], at_s) else {frozenset(): 1.0}
        if e.func.name not in ("rate", "increase"):
            raise NotImplementedError(e.func.name)
        selector, width = e.args[0].vector_selector, _seconds(e.args[0].range)
        end = at_s - _seconds(selector.offset)
        found = {}
        for one in self._matching(selector):
            inside = [(t, v) for t, v in one.samples if end - width <= t <= end]
            if len(inside) > 1:
                grown = _extrapolated(inside, end - width, end)
                found[_bare(one.labels.items())] = grown / width if e.func.name == "rate" else grown
        return found

    def _binary(self, e: Any, at_s: float) -> Vector | float:
        left, right = self.evaluate(e.lhs, at_s), self.evaluate(e.rhs, at_s)
        assert isinstance(left, dict), "a vector is on the left"
        op, key = str(e.op), _key(e.modifier)
        if op in ("and", "unless", "or"):
            assert isinstance(right, dict)
            there = {key(labels) for labels in right}
            if op == "or":
                here = {key(labels) for labels in left}
                return left | {k: v for k, v in right.items() if key(k) not in here}
            return {k: v for k, v in left.items() if (key(k) in there) == (op == "and")}
        if isinstance(right, dict):
            pairs = {key(k): v for k, v in right.items()}
            assert len(pairs) == len(right), "many on one side"
            both = [(k, v, pairs[key(k)]) for k, v in left.items() if key(k) in pairs]
        else:
            both = [(k, v, right) for k, v in left.items()]
        if op in _COMPARISONS:
            return {k: a for k, a, b in both if _COMPARISONS[op](a, b)}
        vector = isinstance(right, dict)
        return {key(k) if vector else _bare(k): _ARITHMETIC[op](a, b) for k, a, b in both}


def _key(modifier: Any) -> Callable[[Labels], Labels]:
    matching = modifier.matching if modifier is not None else None
    if matching is None:
        return _bare
    names = set(matching.labels)
    if matching.type == ast.LabelModifierType.Exclude:
        return lambda labels: frozenset((k, v) for k, v in labels if k not in names | {"__name__"})
    return lambda labels: frozenset((k, v) for k, v in labels if k in names)


def _bare(labels: Any) -> Labels:
    return frozenset((k, v) for k, v in labels if k != "__name__")


def _seconds(span: Any) -> float:
    return 0.0 if span is None else span.total_seconds()


def _extrapolated(samples: list[tuple[float, float]], start: float, end: float) -> float:
    """As Prometheus does it: resets are added, and half an interval beyond the samples is taken as like."""
    grown, before = samples[-1][1] - samples[0][1], samples[0][1]
    for _, value in samples[1:]:
        grown += before if value < before else 0
        before = value
    (first, low), (last, _) = samples[0], samples[-1]
    sampled = last - first
    mean = sampled / (len(samples) - 1)
    head, tail = first - start, end - last
    head = mean / 2 if head >= mean * 1.1 else head
    if grown > 0 and low >= 0:
        head = min(head, sampled * low / grown)
    tail = mean / 2 if tail >= mean * 1.1 else tail
    return grown * (sampled + head + tail) / sampled


@dataclass
class Alert:
    """A rule of a rule file, asked minute by minute."""

    rule: dict[str, Any]
    since: dict[Labels, float] = field(default_factory=dict)

    def firing(self, world: World, upto_s: float, every_s: float) -> set[Labels]:
        """Labels (the alert's own too, no name) of what fires at the end."""
        pause = _seconds(ast.parse_duration(self.rule["for"])) if "for" in self.rule else 0.0
        expression, found, at = ast.parse(self.rule["expr"]), {}, 0.0
        while at <= upto_s:
            found = world.evaluate(expression, at)
            assert isinstance(found, dict)
            self.since = {_bare(k): self.since.get(_bare(k), at) for k in found}
            at += every_s
        last = at - every_s
        mine = frozenset(self.rule["labels"].items())
        return {labels | mine for labels, began in self.since.items() if last - began >= pause}
