"""Systems that count the records of a window: a query, a service, an audit topic."""
