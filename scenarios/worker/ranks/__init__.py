"""A SUT whose shards are processes. `scenarios.worker.rank` is one of them."""
