"""The kill soak: real broker, Spark and PostgreSQL, whose processes are killed and stopped while records flow.

    python -m tests.soak [--fresh] [--records N] [--kills N] [--minutes M] [--seed S]

`scene` is the pipeline and how a task's process composes it; `task` is such a process; `scheduler` starts them as
Airflow would; `killer` ends or stops them; `producer` keeps an acknowledgement log, and `compare` holds the tables
against it. Nothing in the product knows of any of this.
"""
