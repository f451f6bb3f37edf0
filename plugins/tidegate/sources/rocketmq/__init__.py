"""RocketMQ as a source, from its YAML section to the worker's reader. A queue is a lane."""

from __future__ import annotations

from tidegate.core.source.port import Traits
from tidegate.core.source.trouble import Trouble, What
from tidegate.kinds import SourceKind, found_at, late

# half messages of open transactions lie in a topic of the broker's own and get their offset when they are committed
TRAITS = Traits(identity=False, transactions=False, dense=True, rereadable=True, expires=True, remembers=False)


def remedy(trouble: Trouble) -> str:
    """Completes the sentence that `core.source.trouble.What` gives. There are no transactions to see."""
    if trouble.what == What.EXPIRES:
        return "let the brokers keep them: mqadmin updateBrokerConfig -n ... -c ... -k fileReservedTime -v <hours>"
    return "let the brokers keep them longer (fileReservedTime)"


KIND = SourceKind(
    name="rocketmq",
    title="RocketMQ",
    traits=TRAITS,
    connection_types=("rocketmq", "generic"),
    remedy=remedy,
    section=found_at("tidegate.sources.rocketmq.section:RocketMQSection"),
    opened=late("tidegate.sources.rocketmq.control:opened"),
    examined=late("tidegate.sources.rocketmq.doctor:examined"),
    reader=late("tidegate.sources.rocketmq.worker:RocketMQReader"),
    numbering=("brokers",),
)
