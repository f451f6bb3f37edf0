"""Page of a DAG in Airflow's UI: its purpose, the table, each task, the meaning of Clear, the spec."""

from __future__ import annotations

from tidegate.core.spec.pipeline import Pipeline

TASKS = {
    "plan": "Writes to the ledger which offsets this run reads, before it reads any. "
    "**Clear**: shows the batch that this run is bound to; it never plans another one.",
    "write": "Spark reads exactly the planned offsets into a directory of this attempt. "
    "**Clear**: a new attempt (epoch + 1) of the same offsets, unless the batch has landed; then nothing.",
    "land": "Checks the attempt's arithmetic and lands it by one rename; with a backlog left it triggers the next run. "
    "**Clear**: verifies or finishes this run's batch.",
    "ready": "Waits until the watermark of every Kafka partition has passed the window's end, without a worker. "
    "The log says which partition holds it. **Clear**: asks again.",
    "publish": "Closes the window, assembles its files and adds the hour to the table at once. "
    "**Clear**: verifies the published window: it adds a lost partition again and rebuilds a lost file from Kafka "
    "as the next generation; an intact window stays as it is. No row is ever doubled.",
    "replay": "Rebuilds the window from the Kafka ranges of its batches as the next generation; the old one stays "
    "readable until the swap. Unchanged content publishes nothing and says so. Or does what the run's conf asks for: "
    "other windows, a reopening, a rollback, a second reading. **Clear**: does it again.",
    "apply": "Merges all batches that have landed since the last merge into the keyed table, in order, each merge by "
    "one commit. Skipped where nothing has landed. **Clear**: looks at the table, and merges only what it lacks.",
    "copy": "Reads chunks of the source's table from its database, while changes go on, and triggers `apply`, which "
    "merges them. Skipped once all is read. **Clear**: reads what is left; a chunk that was read stays read. To read "
    "all again: `tidegate copy <pipeline> --again --why ...`.",
    "compare": "Compares the source's table with the mirror within `copy.rate`: by checksums of key ranges or groups, "
    "and row by row where they differ; fails where a key differs, and names the first ones. Changes nothing. Skipped "
    "while a copy is under way. **Clear**: compares again.",
    "deliver": "Sends windows whose generation in force does not stand in this further system, oldest first, and reads "
    "them back. Skipped where nothing is due. Readers there meet a window's old rows or its new ones. A window that "
    "the system refuses waits for a person and holds up no other. **Clear**: compares what the run has sent with what "
    "stands there, and sends what differs.",
    "maintain": "Frees runs that a killed backfill left behind, creates archive runs that the schedule went past, "
    "gives up replays that died a day ago, finishes late and dirty files on their way to their tables, reopens windows "
    "whose late rows have waited long enough (`late.reopen_after`), tells other DAGs of publications that they did not "
    "hear of, and deletes files that no task or reader needs any more (section `clean` of the YAML). It sends "
    "measures to Airflow's metrics, and says in its log and under XCom when Kafka's retention would pass unread "
    "records. **Clear**: does it again.",
    "catch_up": "Skipped unless 20 or more windows are ready and have no run, as after a pause. Then it publishes them "
    "in this one process, oldest first, at most 200 windows or five minutes, and triggers the next run for the rest, "
    "which takes them however few they are. Each window gets a run of `archive` that has succeeded, with a note that "
    "names this run; a window that fails gets an ordinary one. **Clear**: publishes what is left.",
}

_PURPOSES = {
    "ingest": ("Kafka to the landing zone", "ingest"),
    "archive": ("Landed rows to the table, one run for each window", "archive"),
    "replay": ("Rebuild windows from Kafka", "replay"),
    "apply": ("Landed changes to the keyed table", "apply"),
    "copy": ("The source's table to the keyed one", "copy"),
    "compare": ("The keyed table against the source's", "copy"),
    "deliver": ("Published windows to further systems", "deliver"),
    "maintain": ("Housekeeping", "maintain"),
}
_TASKS_OF = {"ingest": ("plan", "write", "land"), "archive": ("ready", "publish"), "maintain": ("maintain", "catch_up")}
_USE = {
    "ingest": "Runs by its schedule, one at a time; trigger it for a batch at once. A backfill of it means nothing: "
    "a run reads the new records, whatever its date.",
    "archive": "Runs by its schedule once it is unpaused, from `windows.start` on. A range while it is paused:\n\n"
    "    airflow dags backfill {dag_id} -s 2013-01-05T00:00 -e 2013-01-05T23:00\n\n"
    "Start and end are windows' starts, both included. A manual run means the window that its logical date lies in.\n\n"
    "While the DAG is paused a cleared task waits; a backfill of its window, with the same command, runs it. "
    "A pipeline of old data (`idle: follow`) is best left paused and backfilled: its schedule, which follows the wall "
    "clock, would hold all of max_active_runs with windows for which no data comes.\n\n"
    'Other DAGs, by `from tidegate.downstream import table, window_published`: `schedule=[table("{table}")]` for a run '
    'with each publication, `window_published("{name}")` for a task that waits for its own data interval.',
    "replay": "The schedule never runs it. To rebuild a range:\n\n"
    "    airflow dags backfill {dag_id} -s 2013-01-05T00:00 -e 2013-01-05T23:00\n\n"
    "The same range a second time: Clear the runs (or `--reset-dagruns` while the DAG is paused); a plain second "
    "backfill finds its runs done and does nothing. A manual run means the window that its logical date lies in, or "
    'what its conf names: `{{"window": "2013-01-05T04:00Z"}}`, `{{"from": "2013-01-05", "until": "2013-01-06"}}`, with '
    '`{{"do": "reopen", "why": "..."}}` to take late rows up, `{{"do": "rollback", "generation": 1, "why": "..."}}` to '
    "go back. The board makes such runs too.",
    "apply": "A landing triggers it; the schedule is for what no landing has triggered. While it is paused batches "
    "land all the same, and wait; the first run afterwards merges all of them. A backfill of it is refused: a run "
    "merges what has landed, whatever its date. A merge that was refused stays refused until a run has the conf "
    '`{{"again": true}}`. Other DAGs, by `from tidegate.downstream import table`: `schedule=[table("{table}")]` for a '
    "run after each merge.",
    "copy": "Its schedule goes on with what is left of the newest copy; a run reads for half an hour at most, and then "
    "triggers the next one. While it is paused nothing is read, and nothing is lost: changes go on landing. A backfill "
    "of it is refused: a copy reads the source's table as it is now.",
    "compare": "Runs by `copy.compare`, each on the next `copy.compare_rows` rows, or on all. A run that "
    "fails has found a difference: its log names keys. To put them right: `tidegate compare {name} --fix --why ...`. "
    "A backfill of it is refused: it compares what is there now.",
    "deliver": "A publication triggers it, and so does its schedule. One task for each delivery: one that is down "
    "holds up no other. While it is paused windows are published all the same, and wait. To compare a range with what "
    "stands there, and send what differs or is missing:\n\n"
    "    airflow dags backfill {dag_id} -s 2013-01-05T00:00 -e 2013-01-05T23:00\n\n"
    'A run with the conf `{{"window": "2013-01-05T04:00Z"}}`, or `{{"from": "2013-01-05", "until": "2013-01-06"}}`, '
    "does the same for these windows.",
    "maintain": "Keep it unpaused: without it, runs of a killed `airflow dags backfill` can't be cleared, and windows "
    "that the schedule went past stay unpublished, and nothing is cleaned away.",
}


def description(kind: str, pipeline: Pipeline) -> str:
    """Line for the list of DAGs."""
    return f"{_PURPOSES[kind][0]}: {pipeline.source.topic} -> {pipeline.sink.table}"


def no_backfill(kind: str, name: str) -> str:
    """Why `airflow dags backfill` does nothing for `.apply`, `.copy` and `.compare`, and what does."""
    if kind == "apply":
        why = f"{name} has no windows, so there is nothing to backfill: each run merges all batches that have landed"
        return f"{why}\n  what to do: airflow dags trigger {name}.apply, or tidegate apply {name}"
    then = f"copy {name} --again --why ... reads all of it once more" if kind == "copy" else f"compare {name}"
    why = f"{name}.{kind} reads the source's table as it is now, so there is nothing to backfill"
    return f"{why}\n  what to do: tidegate {then}"


def page(kind: str, pipeline: Pipeline, text: str, runbook_url: str) -> str:
    """`doc_md` of a DAG; `text` is the pipeline's YAML as its owner wrote it."""
    purpose, anchor = _PURPOSES[kind]
    names = [n for n in _TASKS_OF.get(kind, (kind,)) if n != "catch_up" or pipeline.windows.closes]
    tasks = "\n".join(f"- `{task}`: {TASKS[task]}" for task in names)
    fence = "~" * max(3, _longest_fence(text) + 1)
    parts = [
        f"### {purpose}",
        pipeline.description,
        f"Topic `{pipeline.source.topic}` ({pipeline.source.conn_id}) into table `{pipeline.sink.table}` at "
        f"`{pipeline.sink.location}`. [Runbook]({runbook_url}#{anchor}).",
        _USE[kind].format(dag_id=f"{pipeline.name}.{kind}", name=pipeline.name, table=pipeline.sink.table),
        tasks,
        f"#### {pipeline.name}.yaml",
        f"{fence}yaml\n{text.rstrip()}\n{fence}",
    ]
    return "\n\n".join(part for part in parts if part)


def _longest_fence(text: str) -> int:
    return max((len(line) - len(line.lstrip("~")) for line in text.splitlines()), default=0)
