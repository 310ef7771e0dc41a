-- Version 2. What must be known of results that are there: they stay when a campaign is gone on with, and so does it.
CREATE TABLE caveat (
    campaign INTEGER NOT NULL REFERENCES campaign,
    dut      TEXT NOT NULL,             -- the router that it is of; empty of one that is of no router alone
    what     TEXT NOT NULL,
    PRIMARY KEY (campaign, dut, what)
) STRICT;
