"""Where bugs are planted: one line for each function, so that code which moves is followed here and nowhere else.

A seam is a function of the product that says one rule; it knows nothing of bugs.
"""

from __future__ import annotations

# ---------------------------------------------------------------- batches
JOB_OF_A_BATCH = "tidegate.workflow.batch.ingest:job_plan"
TAKE_THE_BATCH = "tidegate.workflow.batch.ingest:_take"
STARTS_OF_A_PLAN = "tidegate.core.batch.planning:_starts"
INSERT_PLAN = "tidegate.ledger.batches:SqlBatches.insert_plan"
NEWEST_BATCH = "tidegate.ledger.ends:newest_batch"
COMPARED = "tidegate.ledger.moves:compared"
RAISE_VERSION = "tidegate.ledger.store:Store.raise_version"
CHECK_WINDOWS = "tidegate.workflow.batch.sealing:_check_windows"
CHECK_TOPIC = "tidegate.workflow.batch.sealing:_check_topic"
CHECK_LISTING = "tidegate.workflow.batch.sealing:_not_as_listed"
RENAME_AND_MARK = "tidegate.workflow.batch.landing:_rename_and_mark"
MOVE_SIDE_FILES = "tidegate.workflow.batch.landing:_move_all"
OWES_SIDE_FILES = "tidegate.workflow.batch.landing:_owes_side"
STAGE_SIDE_FILES = "tidegate.workflow.batch.landing:_staged"
REGISTER_SIDE_FILES = "tidegate.workflow.batch.landing:_register_side"
DRAINED = "tidegate.core.batch.states:PartitionPlan.drained"
KAFKA_CLIENT = "tidegate.sources.kafka.worker:KafkaReader._client_of"

# ---------------------------------------------------------------- renames (R10)
RECOVERY = "tidegate.core.base.renames:decide"
LOOK_AT_BOTH = "tidegate.workflow.base.renames:_look_at_both"
ASK_BEFORE_ALARM = "tidegate.workflow.base.renames:_ask_before_alarm"
MOVE_DIRECTORY = "tidegate.workflow.base.renames:move_directory"

# ---------------------------------------------------------------- a ledger that lost commits (R11)
REFUSE_IF_AHEAD = "tidegate.workflow.base.preflight:check"
REFUSE_IF_GROUP_IS_AHEAD = "tidegate.workflow.base.preflight:check_source"
ADOPT_LANDED = "tidegate.workflow.batch.sealing:adopt_landed"
CHECK_ITS_RANGES = "tidegate.core.restore.ahead:check_ranges"
CHECK_ITS_PLAN = "tidegate.workflow.batch.sealing:_check_its_plan"

# ---------------------------------------------------------------- a database that failed over (R12 to R15)
STILL_KNOWN = "tidegate.ledger.windows:SqlWindows.still"
SHOW_BEFORE_MOVE = "tidegate.targets.hive.table:_show_before_move"
READERS_MET = "tidegate.workflow.base.give_up:_met"
SHOW_LATE_AGAIN = "tidegate.ledger.reopenings:show_again"
OPEN_AT_ADOPTION = "tidegate.ledger.recovery:SqlRecovery._pending"
CONTRADICTION = "tidegate.core.restore.ahead:contradiction"

# ---------------------------------------------------------------- cleaning (R7)
CLEAN_ATTEMPT = "tidegate.core.clean.rules:batch_attempt"
CLEAN_LANDED = "tidegate.core.clean.rules:landed"
CLEAN_LANDED_FILES = "tidegate.core.clean.rules:landed_files"
CLEAN_ASSEMBLY = "tidegate.core.clean.rules:assembly"
CLEAN_ASSEMBLY_NOW = "tidegate.workflow.clean.generations:_Generations._assembly"
DELETE_RETIRED_FILES = "tidegate.workflow.clean.generations:_Generations._delete_files"

# ---------------------------------------------------------------- windows
UNFINISHED_BELOW = "tidegate.ledger.reopenings:unfinished_below"
HOLDS_THE_EPOCH = "tidegate.ledger.windows:SqlWindows.holds"
DECLARE_INTENT = "tidegate.ledger.windows:SqlWindows.declare_intent"
REFUSE_DOUBT = "tidegate.ledger.intents:refuse_doubt"
FENCED_CHANGE = "tidegate.targets.hive.partitions:_Changes._fenced"
ALIGN_CATALOGUE = "tidegate.targets.hive.partitions:align"
VANISHED_VALUES = "tidegate.targets.hive.partitions:_vanished"
READ_BACK = "tidegate.targets.hive.partitions:_read_back"
MUST_ARRIVE = "tidegate.targets.hive.table:_must_arrive"
CERTIFICATE_BYTES = "tidegate.targets.hive.table:_certificate_bytes"
ASSEMBLY_DIRECTORY = "tidegate.core.target.paths:Layout.assembly"
PLACES_OF_A_FILE = "tidegate.workflow.generation.assembly:_places"
MERGE_SMALL = "tidegate.workflow.generation.merge:merge_small"
SWAP = "tidegate.targets.hive.swap_steps:decide"
BRING_UP_A_TABLE = "tidegate.targets.hive.table:bring_up"
TABLES_BEFORE_PLANNING = "tidegate.workflow.base.tables:before_planning"

# ---------------------------------------------------------------- tables in Iceberg (C1 to C9)
ICEBERG_COMMIT = "tidegate.targets.iceberg.table:IcebergTable._commit"
ICEBERG_REPLACE = "tidegate.targets.iceberg.table:IcebergTable._replace"
ICEBERG_DECIDE = "tidegate.targets.iceberg.rules:decide"
ICEBERG_TAG = "tidegate.targets.iceberg.live:tag_of"
ICEBERG_IS_OURS = "tidegate.targets.iceberg.definition:Definition.refuse_other"
ICEBERG_HELD = "tidegate.targets.iceberg.files:held"
ICEBERG_NEWEST_PLACES = "tidegate.targets.iceberg.live:places_of"
ICEBERG_AGREES = "tidegate.targets.iceberg.table:IcebergTable.agrees"
ICEBERG_DATA_FILES = "tidegate.targets.iceberg.files:data_files"
ICEBERG_MAY_GO = "tidegate.targets.iceberg.rules:may_go"
ICEBERG_MANIFESTS = "tidegate.targets.iceberg.leftovers:_manifests"
ICEBERG_LISTS = "tidegate.targets.iceberg.leftovers:_lists"
ICEBERG_LOGGED = "tidegate.targets.iceberg.leftovers:_logged"
ICEBERG_WHOSE = "tidegate.targets.iceberg.names:_is_of"
ICEBERG_SIDE_CHANGE = "tidegate.targets.iceberg.sides:IcebergSide._change"
RECORD_A_GENERATION = "tidegate.workflow.base.records:mark_generation"
IDS_IN_FILES = "spark_jobs.engine.sinks.stored:_Shape.__init__"

# ---------------------------------------------------------------- zone data
PINNED_ZONE = "tidegate.core.window.zonedata:pinned"
WORKERS_ZONE = "spark_jobs.engine.zones:check_zone_data"
ZONE_BEFORE_PLANNING = "tidegate.workflow.base.zone_data:refuse_to_plan"
ZONE_BEFORE_CLOSING = "tidegate.workflow.base.zone_data:refuse_to_close"
ZONE_BEFORE_REBUILDING = "tidegate.workflow.generation.rebuild:_refuse_other_zone_data"

# ---------------------------------------------------------------- catching up
CATCH_UP_ALL = "tidegate.workflow.publish.catchup:_catch_up"
CATCH_UP_ONE = "tidegate.workflow.publish.catchup:_one"
CATCH_UP_REMAINS = "tidegate.core.publish.catchup:Tally.remain"
CATCH_UP_HANDS_ON = "tidegate.core.publish.catchup:conf_of"

# ---------------------------------------------------------------- rebuilding
PART_OF_A_REBUILD = "tidegate.workflow.generation.rebuild:_part"
JOB_OF_A_REBUILD = "tidegate.workflow.generation.rebuild:_job_plan"
RECREATED_MEANWHILE = "tidegate.workflow.generation.rebuild:_recreated"
OTHER_ROWS = "tidegate.workflow.generation.rebuild:_other_rows"
COMPARE_COPIED = "tidegate.workflow.generation.rebuild:_compare_copied"
OVERTAKEN_IN_A_RANGE = "tidegate.workflow.replay.replay:_Range._overtaken"
GONE_FROM_KAFKA = "tidegate.core.replay.origin:gone"
COLUMN_IS_KEPT = "tidegate.core.replay.origin:_kept"
COMPARE_GAPS = "tidegate.core.files.second_reading:compare"
OBJECTION_TO_GAPS = "tidegate.core.files.second_reading:SecondReading.objection"
JOB_CHECKS_TOPIC = "spark_jobs.engine.job:_check_topic"
DECIDING_SPEC = "spark_jobs.engine.task:_deciding"
CHOOSE_ROWS = "spark_jobs.engine.targets:Targets.choose"
ROWS_OF_FILES = "spark_jobs.engine.rewrite.move:_wanted"

# ---------------------------------------------------------------- late and dirty rows
BALANCE_HOLDS = "tidegate.core.files.balance:Balance.holds"
TAKE_OVER = "tidegate.ledger.redrives:take_over"
SET_REDRIVEN_ASIDE = "tidegate.workflow.side.dirty_files:set_aside"
DROP_REOPENED = "tidegate.workflow.side.late_files:_drop"
MOVE_REOPENED = "tidegate.workflow.side.late_files:_move"
CARRIED_LATE_ROWS = "tidegate.ledger.reopenings:carried"
REOPENING_DUTIES = "tidegate.ledger.reopenings:duties"
LATE_SOURCES = "tidegate.workflow.generation.extension:_late_sources"

# ---------------------------------------------------------------- event time (tests/simulation)
ENDS_OF_A_PLAN = "tidegate.core.batch.planning:_ends"
MOVES_WATERMARK = "tidegate.core.batch.planning:_moves_watermark"
ADVANCE = "tidegate.core.batch.planning:advance"
OWN_WATERMARK = "tidegate.core.window.watermark:own_watermark"
WATERMARKS = "tidegate.core.window.watermark:watermarks"
CLOCK_STANDS_IN = "tidegate.core.window.watermark:_Clock.stand_in"
CLOCK_MEETS_SILENCE = "tidegate.core.window.watermark:_Clock._topic_is_silent"
CLOCK_MEETS_BACKLOG = "tidegate.core.window.watermark:_Clock._behind"
TOPIC_LAGS = "tidegate.core.window.watermark:lags"
BLOCKS_A_WINDOW = "tidegate.core.window.readiness:_blocks"
FLOOR = "tidegate.core.window.lateness:floor_of"
FLOOR_BY_POLICY = "tidegate.core.window.lateness:by_policy"
WINDOW_END = "tidegate.core.window.cut:window_end"
COURSE_ATTEMPT = "tests.simulation.course:Course._attempt"
COURSE_EVENTS = "tests.simulation.course:Course._events"
COURSE_IS_CURRENT = "tests.simulation.course:Course._is_current"
COURSE_WAITS = "tests.simulation.course:Course._waits"

# ---------------------------------------------------------------- keyed tables (M1 to M7)
MIRROR_NEWER = "tidegate.core.mirror.order:newer"
MIRROR_SAME = "tidegate.core.mirror.order:same"
MIRROR_BELOW = "tidegate.core.mirror.order:is_below"
MIRROR_CONTRADICT = "tidegate.core.mirror.order:contradict"
MIRROR_FATES = "tidegate.core.mirror.order:fates"
MIRROR_SORT = "spark_jobs.engine.mirror.merge:_least_first"
MIRROR_FIRST = "spark_jobs.engine.mirror.merge:_last_to_first"
MIRROR_ROWS = "spark_jobs.engine.mirror.merge:_rows"
