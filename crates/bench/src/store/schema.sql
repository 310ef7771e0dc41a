-- One row for each campaign. Documents are JSON, as "volley bench run --json" has them.
CREATE TABLE campaign (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    begun      TEXT NOT NULL,           -- RFC 3339, UTC
    asked      TEXT NOT NULL,           -- the campaign
    profile    TEXT NOT NULL,
    provenance TEXT NOT NULL,
    conditions TEXT NOT NULL,
    writer     TEXT,                    -- the process that writes to it, or did at last
    finished   TEXT                     -- RFC 3339, UTC; NULL until all was measured
) STRICT;

-- What routers say of themselves.
CREATE TABLE dut (
    campaign INTEGER NOT NULL REFERENCES campaign,
    name     TEXT NOT NULL,
    facts    TEXT NOT NULL,
    PRIMARY KEY (campaign, name)
) STRICT;

-- What is known of a router with a traffic and size before the first procedure: what the tester itself can do, what the link carries.
CREATE TABLE cell (
    campaign INTEGER NOT NULL REFERENCES campaign,
    key      TEXT NOT NULL,             -- router, traffic, size, directions
    head     TEXT NOT NULL,             -- a cell without measurements
    PRIMARY KEY (campaign, key)
) STRICT;

-- What procedures found.
CREATE TABLE measurement (
    campaign  INTEGER NOT NULL REFERENCES campaign,
    key       TEXT NOT NULL,            -- router, traffic, size, directions
    procedure TEXT NOT NULL,
    found     TEXT NOT NULL,
    PRIMARY KEY (campaign, key, procedure)
) STRICT;

-- Every trial, in the order in which they were made.
CREATE TABLE trial (
    campaign INTEGER NOT NULL REFERENCES campaign,
    number   INTEGER NOT NULL,
    record   TEXT NOT NULL,
    PRIMARY KEY (campaign, number)
) STRICT;

-- What could not be measured, and why.
CREATE TABLE failure (
    campaign INTEGER NOT NULL REFERENCES campaign,
    number   INTEGER NOT NULL,
    why      TEXT NOT NULL,
    PRIMARY KEY (campaign, number)
) STRICT;
