-- Version 2. Caveats of existing results. A resumed campaign keeps its results, and their caveats.
CREATE TABLE caveat (
    campaign INTEGER NOT NULL REFERENCES campaign,
    dut      TEXT NOT NULL,             -- the router concerned; empty if not about a single router
    what     TEXT NOT NULL,
    PRIMARY KEY (campaign, dut, what)
) STRICT;
