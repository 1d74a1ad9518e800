"""The gateway: readings of devices in, a private stream out, value by value, through crashes.

The rooms, from the bottom up: `configuration` (the settings; `loading` reads them), `topics`, `reading` (what a
message says), `vault` (how it lies on disk), `state` (SQLite), `series` (one device's release under way),
`exchange` (a batch of messages in one transaction), and the two ways in and out, `pipe` and `mqtt`. Nothing here
imports numba, pandas or DuckDB, since gateways are small machines.
"""
