"""Asks the log of the site that is left which of its records came there as copies, behind its mark (F3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.core.base.errors import SourceError
from tidegate.core.failover.decision import Facts
from tidegate.core.failover.origins import Origins
from tidegate.core.source.behind import Behind
from tidegate.workflow.base.context import Context


@dataclass
class Left:
    """`behind`: of the topic that is left; None where no third site's copies can lie behind its mark."""

    ctx: Context
    facts: Facts
    behind: Behind | None
    _silent: bool = field(init=False, default=False)

    def origins(self, partition: int) -> Origins | None:
        """What the copies themselves say."""
        return None if self.behind is None else Origins(partition, self.behind)

    def asked(self, partition: int) -> Origins | None:
        """With what the log says of records that have not landed; None where it gives no answer, or is another one.

        A site that has not answered is not asked again: each time takes a while."""
        found, topic = self.origins(partition), self.facts.topic.topic
        if found is None or self._silent:
            return None
        try:
            log = self.ctx.standby(self.facts.before)
            state = log.look(topic)
            lane = state.partitions.get(partition)
            if lane is None or state.topic_id != self.facts.before_topic_id:
                return None
            start, end = max(self.facts.landed[partition], lane.log_start), lane.last_stable_offset
            for one in log.records(topic, start, end, partition) if start < end else ():
                found.see(one.offset, one.sources)
        except SourceError:
            self._silent = True
            return None
        return found
