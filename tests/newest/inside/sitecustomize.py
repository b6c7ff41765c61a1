"""Python 3.14 starts processes by a server, to which a test with an opened device cannot be sent; rdma-core's tests
need fork."""

import multiprocessing

multiprocessing.set_start_method("fork")
