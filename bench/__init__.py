"""How fast Rowlock is, beside its peers and hand-written loops, measured in one run on one machine: `make bench`."""
