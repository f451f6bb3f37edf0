"""The error tree. Each error says whether trying again can help and what an operator should do.

TidegateError
|- SpecError             a pipeline's YAML is wrong: file, line, field
|- LedgerError
|  |- WrongRevision      the ledger's schema is not the one this code needs
|  |- LostComparison     somebody newer moved the row (retry: look again)
|  |- UnknownWord        a state or a kind that only a newer release knows
|- SourceError
|  |- SourceUnavailable  the broker does not answer (retry)
|  |- NoPlace            a mirror's connector has no place in its source's log (retry)
|  |- DataLoss           offsets that were due are gone from the topic
|  |  |- LogCut          the log was cut below what was planned, and may have grown again
|  |- TopicRecreated     the topic id is not the accepted one
|  |- SiteNotActive      another site of the source is active (retry: the next try reads there)
|- StorageError
|  |- PathMissing        a definite answer: the source is not there
|  |- PathExists         a definite answer: the destination is taken
|  |- OutcomeUnknown     the call may or may not have been executed (retry: look, then decide)
|  |- StorageAhead       storage holds batches that the ledger does not know
|  |  |- OtherPipeline    they are a pipeline's of another name
|- CatalogueError
|  |- CatalogueUnsure    a DDL call without a definite answer (retry after reading back)
|  |- CatalogueMismatch  the table, or a partition, is not what it should be
|- DeliveryRefused       a further system did not take a window; nothing that readers meet has changed
|  |- DeliveryAhead      what stands there was sent by a later try
|  |- DeliveryDenied     it, or a store, refuses the user, whichever the window
|- DeliveryUnsure        a further system gave no definite answer (retry: the next epoch looks first)
|- JobFailed             the Spark job ended without a receipt (retry), its own last words inside
|  |- JobKilled          a signal ended its process (retry)
|  |- AttemptSpoilt      what it left is not what it reported, or cannot be read (retry: the next attempt writes again)
|- BatchRefused          the content is not acceptable: too dirty, unknown field, gaps
|- OtherZoneData         windows were cut or spelled by other zone data than this host's
|- FailoverRefused       what a failover of the source needs cannot be proven
|- AskedWrong            a run's conf asks for something that is missing
|- ReplayRefused         a rebuild would change membership, or its source is gone
|- Alarm                 files and ledger contradict each other: blocked until `tidegate repair`
|  |- FilesLost          files that a manifest names are missing, or not as it says
|- TruthUnknown          another system gives no usable count of a window (retry)
|- CatchUpStopped        several windows in a row could not be published (retry)
|- StepMissing           a step before this one is not done
|- NotReady              a window may not be closed yet (retry), its certificate inside
|  |- BehindBatch        another batch is open, and only one is at a time
|  |- GivesWay           a redrive that has waited goes first
"""

from __future__ import annotations

GOES_ON = "the next try goes on by itself"
"""In an advice: true of a task; who runs a command by hand is told to run it again."""


class TidegateError(Exception):
    """`retry`: whether the next try can succeed without a human. `advice`: what to do, one sentence."""

    retry = False
    advice = ""

    def __init__(self, message: str, *, advice: str = "", retry: bool | None = None) -> None:
        super().__init__(message)
        self.advice = advice or type(self).advice
        self.retry = type(self).retry if retry is None else retry

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  what to do: {self.advice}" if self.advice else message


class SpecError(TidegateError):
    """A pipeline's YAML is wrong. `where` is `file:line`, `field` a dotted path."""

    def __init__(self, message: str, *, where: str = "", field: str = "", advice: str = "") -> None:
        place = ": ".join(part for part in (where, field) if part)
        super().__init__(f"{place}: {message}" if place else message, advice=advice)
        self.where, self.field = where, field


class LedgerError(TidegateError):
    """The ledger cannot be used."""

    retry = True


class WrongRevision(LedgerError):
    retry = False
    advice = "run `tidegate db migrate` with the version of tidegate that the schedulers run"


class LostComparison(LedgerError):
    """A compare-and-set found another state than the one that was read: somebody else has moved on."""

    retry = True


class UnknownWord(LedgerError):
    """A state or a kind in the ledger, or in a record of it, that this release does not know; nothing was changed."""

    retry = False
    advice = "a newer release wrote it: run that release here too"


class SourceError(TidegateError):
    """The topic cannot be read as planned."""


class NoPlace(SourceError):
    """A mirror's connector says that it has no place in its source's log from which it would go on (S12)."""

    retry = True


class SourceUnavailable(SourceError):
    retry = True
    advice = f"check the connection that source.conn_id names; {GOES_ON}"


class DataLoss(SourceError):
    advice = "set source.on_data_loss: record to go on without these offsets (they are written to the ledger)"


class LogCut(DataLoss):
    """The log gave up offsets that were planned, and gives them to other records."""

    advice = (
        "compare with the producers, then decide: `tidegate source rewind <pipeline> --why '...'` reads on from the "
        "cut, `tidegate source skip <pipeline> --why '...'` goes on at the planned end and records a loss"
    )


class TopicRecreated(SourceError):
    advice = "if the topic was recreated on purpose, run `tidegate source reset <pipeline> --why '...'`"


class SiteNotActive(SourceError):
    """Another site of the source is active, by the ledger: what is read here would be read twice."""

    retry = True
    advice = f"{GOES_ON}, at the active site; a YAML without source.sites gets them back"


class FailoverRefused(TidegateError):
    """What a failover needs cannot be proven; nothing was changed."""


class StorageError(TidegateError):
    """The filesystem refused."""

    retry = True


class PathMissing(StorageError):
    """Definite: nothing was changed, the source is not there."""


class PathExists(StorageError):
    """Definite: nothing was changed, the destination is taken."""


class OutcomeUnknown(StorageError):
    """The call may have been executed, may be executed later, or not at all: look before anything else."""

    retry = True


class StorageAhead(StorageError):
    retry = False
    advice = (
        "the ledger lost commits (a failover, a restored backup?): `tidegate repair <pipeline> --adopt` shows what "
        "storage remembers and writes it back"
    )


class OtherPipeline(StorageAhead):
    """Batches and windows in this place were landed under another name, by which the ledger knows them."""

    advice = "take the old name back; a pipeline of another name needs a table and a location of its own"


class CatalogueError(TidegateError):
    """The table's catalogue refused."""

    retry = True


class CatalogueUnsure(CatalogueError):
    """A statement without a definite answer: it may still be executed."""


class CatalogueMismatch(CatalogueError):
    retry = False


class DeliveryRefused(TidegateError):
    """A further system did not take a window: a definite answer, and readers there meet what they met before."""

    retry = True


class DeliveryDenied(DeliveryRefused):
    """The system, or a store that holds the rows, refuses the user, or every change: a login, a right, a server that
    only reads. No window is to blame: each is as due as before."""

    retry = False


class DeliveryAhead(DeliveryRefused):
    """What stands there was sent by a later try, by its own token: `generation` and `epoch`. A try that comes late ends
    here; a ledger that lost commits goes on above that epoch."""

    def __init__(self, message: str, *, generation: int = 0, epoch: int = 0, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.generation, self.epoch = generation, epoch


class DeliveryUnsure(TidegateError):
    """A further system gave no definite answer: what was asked of it may be executed, now or later."""

    retry = True
    advice = f"{GOES_ON}, under an epoch of its own: it looks at what stands there first"


class JobFailed(TidegateError):
    """The Spark job ended without a receipt."""

    retry = True


class JobKilled(JobFailed):
    """A signal ended the Spark job's process, which had no time to say why."""

    advice = (
        "unless somebody killed it, memory ran out: `journalctl -k` or `dmesg -T` on the driver's host names what the "
        "kernel killed; give the driver (spark.driver.memory), the worker or its container more memory, or lower "
        "ingest.max_records"
    )


class AttemptSpoilt(JobFailed):
    """An attempt's receipt cannot be read, or its files are not those of the receipt. Nothing is lost: the topic has
    the records, and the next attempt writes into a directory of its own."""

    advice = "the next try writes the same offsets again; if it comes back, look after the filesystem"


class BatchRefused(TidegateError):
    """What was read may not land; offsets stay where they were."""

    advice = "fix the spec or raise the threshold, then clear the write task: the same offsets are read again"

    def __init__(
        self,
        message: str,
        *,
        advice: str = "",
        kind: str = "other",
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        """`kind`: core.batch.refusal.RefusalKind. `partition`, `offset`: of the record that it stopped at."""
        super().__init__(message, advice=advice)
        self.kind, self.partition, self.offset = kind, partition, offset


class OtherZoneData(TidegateError):
    """Windows were cut or spelled by other zone data than this host's; nothing was changed."""


class OverBudget(TidegateError):
    """A window may be reopened so often, so late and with so many rows only as the spec says."""

    advice = "raise that key; or, for once: tidegate reopen <pipeline> <window> --over-budget --why ..."


class AskedWrong(TidegateError):
    """A run's conf asks for something that is missing."""

    advice = (
        'the conf is {"do": "replay" | "reopen" | "rollback" | "reread", "window": "2013-01-05T04:00Z", "why": "..."}, '
        'with "from" and "until" instead of "window" for a range, "generation" of a rollback, "over_budget" of a '
        "reopening; trigger a new run"
    )


class ReplayRefused(TidegateError):
    """A rebuild publishes nothing, for the reason given; the current generation stays."""


class Alarm(TidegateError):
    """Files and ledger contradict each other."""

    advice = "look at `tidegate explain`; once understood, `tidegate repair` clears the block"


class FilesLost(Alarm):
    """Files that a manifest names are missing, or not as long as it says."""

    advice = "restore them from a backup of the filesystem, then `tidegate repair` and clear the task"


class NotReady(TidegateError):
    retry = True


class BehindBatch(NotReady):
    """Another batch of the pipeline is open."""

    advice = "try again once it has landed"


class GivesWay(NotReady):
    """An ingest run plans nothing new, because a redrive that has waited behind a batch goes first."""


class StillClosing(NotReady):
    """The window begins no new rows; a batch that was planned before may still bring some, and must land first."""


class TruthUnknown(TidegateError):
    """Another system gave no count that could be used; the message says why, in one line and without secrets."""

    retry = True


class CatchUpStopped(TidegateError):
    """Several windows in a row could not be published, so it's no fault of theirs."""

    retry = True
    advice = f"fix what the error says (is the catalogue up?); {GOES_ON}, and so does the next maintenance run"


class StepMissing(TidegateError):
    """Another task comes first."""
