"""Consequences of an action, to confirm: gathered for the page, and again when the form comes back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.board.reach import Reach
from tidegate.core.base.errors import AskedWrong, NotReady, ReplayRefused, SourceError, StepMissing
from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import DATA
from tidegate.core.replay import request
from tidegate.core.replay.request import REOPEN, REPLAY, REREAD, ROLLBACK, Asked
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import CURRENT, RETIRED, WindowKey
from tidegate.workflow.late import reopen
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore import reset

RELEASE, RESET = "release", "reset"
ACTIONS = (REPLAY, REOPEN, ROLLBACK, REREAD, RELEASE, RESET)
TITLES = {
    REPLAY: "Replay",
    REOPEN: "Reopen",
    ROLLBACK: "Roll back",
    REREAD: "Read again",
    RELEASE: "Release a batch that is too dirty",
    RESET: "Accept the topic as it is now",
}
_SHOWN = 12


@dataclass(frozen=True)
class Choice:
    """One of several generations to go back to."""

    value: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Question:
    """One page. `seen` is a digest of what was shown: it must still hold when the form comes back. `obstacle`: why it
    can't be done now.

    `tick` is what else has to be agreed to; `fields` go with the form."""

    do: str
    title: str
    subject: str
    happens: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    quote: str = ""
    obstacle: str = ""
    seen: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    choices: tuple[Choice, ...] = ()
    tick: str = ""
    picks: bool = False  # a range is asked for first
    asked: Asked | None = None


def gather(reach: Reach, pipeline: Pipeline, do: str, given: Mapping[str, str]) -> Question:
    """The page's question. Raises AskedWrong for unknown parameters, LedgerError, SourceError, SpecError, NotReady."""
    if do == RELEASE:
        return _release(reach, pipeline, given)
    if do == RESET:
        return _reset(reach, pipeline)
    if not any(given.get(key) for key in ("window", "from", "until")):
        return Question(do=do, title=TITLES[do], subject=pipeline.name, picks=True)
    it = _asked(pipeline, do, given)
    kind = {REPLAY: _replay, REOPEN: _reopen, ROLLBACK: _rollback, REREAD: _reread}[do]
    return kind(reach, pipeline, it, given)


def subject_of(windows: tuple[WindowKey, ...]) -> str:
    """The windows' name in the event log."""
    if len(windows) == 1:
        return f"window {window_id(windows[0].start_ms)}"
    return f"windows {window_id(windows[0].start_ms)} to {window_id(windows[-1].start_ms)}"


def _asked(pipeline: Pipeline, do: str, given: Mapping[str, str]) -> Asked:
    conf = {key: given[key] for key in ("window", "from", "until") if given.get(key)}
    found = request.asked(conf, pipeline.windows, None)
    return Asked(do, found.windows)


def _of_windows(it: Asked, facts: Sequence[tuple[str, str]], happens: Sequence[str], obstacle: str) -> Question:
    return Question(
        do=it.do,
        title=f"{TITLES[it.do]} {_which(it.windows)}",
        subject=subject_of(it.windows),
        happens=tuple(happens),
        facts=tuple(facts),
        obstacle=obstacle,
        fields=tuple((k, str(v)) for k, v in it.conf().items() if k in ("window", "from", "until")),
        asked=it,
    )


def _which(windows: tuple[WindowKey, ...]) -> str:
    first = iso(windows[0].start_ms)
    return first if len(windows) == 1 else f"{many(len(windows), 'window')}, {first} up to {iso(windows[-1].end_ms)}"


def _replay(reach: Reach, pipeline: Pipeline, it: Asked, given: Mapping[str, str]) -> Question:
    reads, name = reach.ledger().reads, pipeline.name
    span = Interval(it.windows[0].start_ms, it.windows[-1].end_ms)
    marks = [m for m in reads.marks(name, span) if m.number is not None]
    rows = sum(m.rows or 0 for m in marks)
    facts = [
        ("Window" if len(it.windows) == 1 else "Windows", _which(it.windows)),
        ("Rows in force", f"{rows:,} in {many(len(marks), 'published window')}"),
    ]
    if len(it.windows) == 1 and marks:
        facts += _reading(reach, pipeline, it.windows[0])
    missing = len(it.windows) - len(marks)
    obstacle = "" if marks else "None of these windows was ever published: there is nothing to replay."
    happens = [
        "Each window is rebuilt with today's columns, as its next generation; which rows belong to it is decided as it "
        "was when they were read. Readers see the old generation until the swap.",
        "Content that comes out the same publishes nothing. If the number of rows would differ, nothing is published, "
        "and the run says why.",
        *(
            ("The windows share one reading of Kafka. Those that a replay by today's spec has rebuilt are skipped.",)
            if len(it.windows) > 1
            else ()
        ),
    ]
    if marks and missing:
        happens.append(f"{missing:,} of the windows were never published: they are refused, the others are rebuilt.")
    return _of_windows(it, facts, happens, obstacle)


def _reading(reach: Reach, pipeline: Pipeline, key: WindowKey) -> list[tuple[str, str]]:
    """Cost of a replay: the offsets to read again, and whether the topic still has them."""
    view = reach.ledger().reads.window_view(pipeline.name, key)
    current = next((g for g in view.generations if g.state == CURRENT), None)
    owed = [t for t in view.totals if t.kind == DATA and (current is None or t.batch_id in current.batches)]
    offsets = sum(t.max_offset - t.min_offset + 1 for t in owed)
    found = [("Offsets to read again", f"{offsets:,}, of {many(len({t.batch_id for t in owed}), 'batch')}")]
    if current is not None:
        found.insert(0, ("Generation in force", f"{current.number} ({current.kind})"))
    first: dict[int, int] = {}
    for t in owed:
        first[t.partition] = min(t.min_offset, first.get(t.partition, t.min_offset))
    ctx, ids = reach.context(pipeline), {t.batch_id for t in owed}
    accepted = ctx.ledger.batches.planning_view(pipeline.name).accepted_topic_id
    try:
        topic = ctx.source.look(pipeline.source.topic)
    except SourceError:
        return [*found, ("In Kafka", "not known: no broker answers just now")]
    topics = {b.topic_id for b in view.batches if b.batch_id in ids}
    if topic.known_as(accepted).is_another(accepted) or topics - {accepted}:
        return [*found, ("In Kafka", "not all of them: some are of a topic of this name before it, or at another site")]
    gone = [p for p, low in first.items() if p not in topic.partitions or topic.partitions[p].log_start > low]
    told = "all of them are still there"
    if gone:
        told = f"retention has passed some, of partition {', '.join(map(str, sorted(gone)[:8]))}"
    return [*found, ("In Kafka", told)]


def _reopen(reach: Reach, pipeline: Pipeline, it: Asked, given: Mapping[str, str]) -> Question:
    ctx, wanted = reach.context(pipeline), {key.start_ms for key in it.windows}
    if len(it.windows) == 1:
        choices = [c for c in (reopen.preview(ctx, it.windows[0]),) if c.late is not None]
    else:
        choices = [c for c in reopen.waiting(ctx) if c.window.start_ms in wanted]
    ready = [c for c in choices if c.late is not None and c.late.current is not None]
    rows = sum(c.late.rows for c in ready if c.late is not None)
    facts = [
        ("Window" if len(it.windows) == 1 else "Windows", _which(it.windows)),
        ("Late rows that wait", f"{rows:,} in {many(len(ready), 'published window')}"),
    ]
    for c in ready[:_SHOWN] if len(it.windows) > 1 else ready:
        assert c.late is not None
        facts.append((iso(c.window.start_ms), f"{many(c.late.rows, 'row')} of {many(len(c.late.batches), 'batch')}"))
    over = [f"{iso(c.window.start_ms)}: {'; '.join(c.over)}" for c in ready if c.over]
    tick = f"Also over the budget that the pipeline allows ({over[0]})" if over else ""
    tick += f" and {len(over) - 1:,} more" if len(over) > 1 else ""
    happens = (
        "Late rows become part of their windows, as the next generation: the rows in force and all late rows that "
        "wait, proved row by row from the files. Kafka is not read.",
        "They leave the late table. DAGs that are scheduled by the table get a run.",
    )
    obstacle = "" if ready else "No late rows wait for these windows."
    seen = hashlib.sha256(repr([(c.window.start_ms, c.over) for c in ready]).encode()).hexdigest()[:16]
    return replace(_of_windows(it, facts, happens, obstacle), seen=seen, tick=tick)


def _rollback(reach: Reach, pipeline: Pipeline, it: Asked, given: Mapping[str, str]) -> Question:
    if len(it.windows) > 1:
        raise AskedWrong("a rollback is of one window", advice="go back, and choose a window")
    view = reach.ledger().reads.window_view(pipeline.name, it.windows[0])
    current = next((g for g in view.generations if g.state == CURRENT), None)
    old = [g for g in view.generations if g.state == RETIRED and g.cleaned_ms is None]
    choices = tuple(
        Choice(
            str(g.number),
            f"Generation {g.number} ({g.kind}, {many(g.rows or 0, 'row')}, published {iso(g.published_ms)})",
        )
        for g in sorted(old, key=lambda g: -g.number)
    )
    obstacle = ""
    if current is None:
        obstacle = "The window was never published."
    elif not choices:
        obstacle = f"No earlier generation has its files any more (archive.keep_generations): {current.number} stays."
    facts = [("Window", iso(it.windows[0].start_ms))]
    if current is not None:
        facts.append(("In force", f"generation {current.number} ({current.kind}), {many(current.rows or 0, 'row')}"))
    happens = (
        "Readers see the rows of the generation that you choose, as they were, after one swap: its files become the "
        "next generation. Nothing is read from Kafka.",
        "The generation in force now is retired: you can go back to it as long as its files exist.",
    )
    seen = "" if current is None else str(current.number)
    return replace(_of_windows(it, facts, happens, obstacle), seen=seen, choices=choices)


def _reread(reach: Reach, pipeline: Pipeline, it: Asked, given: Mapping[str, str]) -> Question:
    from tidegate.workflow.replay import reread

    if len(it.windows) > 1:
        raise AskedWrong("a second reading is of one window", advice="go back, and choose a window")
    facts, seen, obstacle = [("Window", iso(it.windows[0].start_ms)), ("Table", pipeline.source.topic)], "", ""
    try:
        current = reread.refuse(reach.context(pipeline), it.windows[0])
    except (NotReady, ReplayRefused) as e:
        obstacle = str(e).partition("\n")[0]
    else:
        seen, rows = str(current.number), sum(f.rows for f in current.files)
        facts.append(("In force", f"generation {current.number} ({current.kind}), {many(rows, 'row')}"))
    happens = (
        "The table is read as it is now: another snapshot, whatever window it is for. After one swap readers see its "
        "rows, and none of the first reading.",
        "The generation in force now is retired: you can roll back to it as long as its files exist.",
    )
    return replace(_of_windows(it, facts, happens, obstacle), seen=seen)


def _release(reach: Reach, pipeline: Pipeline, given: Mapping[str, str]) -> Question:
    text = given.get("batch") or ""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise AskedWrong("the page's address names no batch", advice="begin at the pipeline's page")
    batch, ctx = int(text), reach.context(pipeline)
    refused, obstacle = "", ""
    try:
        refused = reconcile.releasable(ctx, batch)
    except StepMissing as e:
        obstacle = str(e).partition("\n")[0]
    happens = (
        f"Batch {batch} lands as it is: its dirty rows go into {pipeline.sink.table}__dirty, the others into their "
        "windows. Nothing is read again if the refused attempt's files are complete.",
        "The limits of dirty records stay in force for every other batch, and for this one if the pipeline's spec "
        "changes before it lands.",
        "Its failed write task is cleared.",
    )
    return Question(
        do=RELEASE,
        title=f"Release batch {batch}",
        subject=f"batch {batch}",
        happens=happens,
        facts=(("Batch", str(batch)),),
        quote=refused.partition("\n")[0],
        obstacle=obstacle,
        seen=seen_of(refused),
        fields=(("batch", str(batch)),),
    )


def _reset(reach: Reach, pipeline: Pipeline) -> Question:
    found = reset.survey(reach.context(pipeline))
    if not isinstance(found, reset.Recreated):
        obstacle = f"Topic {found.topic} ({found.topic_id}) is the accepted one: there is nothing to accept."
        return Question(do=RESET, title=TITLES[RESET], subject=found.topic_id, obstacle=obstacle)
    topic = found.topic
    facts = [
        ("Topic", topic.topic),
        ("Id that the ledger's offsets belong to", found.old),
        ("Id now", topic.topic_id),
        ("To be read", f"{many(found.offsets, 'offset')} in {many(len(topic.partitions), 'partition')}"),
    ]
    happens = [
        "The topic's offsets start anew, and it is read from its beginning by the next ingest run.",
        "Rows that were landed from the old topic stay. If the new topic holds the same messages again, the table has "
        "them twice: their offsets don't show it.",
    ]
    if found.gone:
        facts.append(("Gone already", f"{many(sum(found.gone.values()), 'offset')} from its beginning"))
        happens.append("Gone records are a loss: by source.on_data_loss the next plan records it, or stops there.")
    if found.landed is not None:
        facts.append(("Kept", f"batch {found.landed.plan.batch_id}, which has landed before the ledger says so"))
    if found.given_up is not None:
        plan = found.given_up.plan
        lost = (
            f"batch {plan.batch_id} ({found.given_up.state}), "
            f"{many(plan.records, 'offset')} that can't be read any more"
        )
        facts.append(("Given up", lost))
        happens.append("The open batch becomes ABANDONED; its offsets stay in the ledger as a term of the balance.")
    seen = seen_of(f"{found.old} {topic.topic_id} {found.given_up and found.given_up.plan.batch_id}")
    return Question(
        do=RESET, title=TITLES[RESET], subject=topic.topic_id, happens=tuple(happens), facts=tuple(facts), seen=seen
    )


def seen_of(text: str) -> str:
    """Digest of the page's content."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""
