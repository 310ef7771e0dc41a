-- One row per campaign. Documents are JSON, as written by "volley bench run --json".
CREATE TABLE campaign (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    begun      TEXT NOT NULL,           -- RFC 3339, UTC
    asked      TEXT NOT NULL,           -- the campaign
    profile    TEXT NOT NULL,
    provenance TEXT NOT NULL,
    conditions TEXT NOT NULL,
    writer     TEXT,                    -- the process that writes to it, or the last one that did
    finished   TEXT                     -- RFC 3339, UTC; NULL until it is finished
) STRICT;

-- Versions and configurations of the routers.
CREATE TABLE dut (
    campaign INTEGER NOT NULL REFERENCES campaign,
    name     TEXT NOT NULL,
    facts    TEXT NOT NULL,
    PRIMARY KEY (campaign, name)
) STRICT;

-- A router with a traffic and frame size: the limits of tester and link, measured before the first procedure.
CREATE TABLE cell (
    campaign INTEGER NOT NULL REFERENCES campaign,
    key      TEXT NOT NULL,             -- router, traffic, size, directions
    head     TEXT NOT NULL,             -- a cell without measurements
    PRIMARY KEY (campaign, key)
) STRICT;

-- Results of the procedures.
CREATE TABLE measurement (
    campaign  INTEGER NOT NULL REFERENCES campaign,
    key       TEXT NOT NULL,            -- router, traffic, size, directions
    procedure TEXT NOT NULL,
    found     TEXT NOT NULL,
    PRIMARY KEY (campaign, key, procedure)
) STRICT;

-- All trials, in order.
CREATE TABLE trial (
    campaign INTEGER NOT NULL REFERENCES campaign,
    number   INTEGER NOT NULL,
    record   TEXT NOT NULL,
    PRIMARY KEY (campaign, number)
) STRICT;

-- Failed measurements, with reasons.
CREATE TABLE failure (
    campaign INTEGER NOT NULL REFERENCES campaign,
    number   INTEGER NOT NULL,
    why      TEXT NOT NULL,
    PRIMARY KEY (campaign, number)
) STRICT;
