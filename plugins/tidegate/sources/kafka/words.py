"""What to do about a Kafka topic, with the commands of Kafka's own tools; they are named in this folder alone."""

from __future__ import annotations

from tidegate.core.source.trouble import Trouble, What

_HANGING = "`kafka-transactions.sh find-hanging` names it, `abort` ends one whose producer is gone"


def remedy(trouble: Trouble) -> str:
    """Completes the sentence that `core.source.trouble.What` gives."""
    if trouble.what == What.EXPIRES:
        raised = "retention.bytes" if trouble.limit == "bytes" else "retention.ms"
        return (
            "let Kafka keep them: kafka-configs --bootstrap-server ... --alter --entity-type topics --entity-name "
            f"{trouble.topic} --add-config {raised}=..."
        )
    if trouble.what == What.KEEPS_LITTLE:
        return "let Kafka keep them longer (retention.ms)"
    if trouble.what == What.TRANSACTION:
        return _HANGING
    itself = f"Kafka those of a producer that is gone, as a rule within {trouble.within}"
    return f"producers end their transactions, and {itself}"
