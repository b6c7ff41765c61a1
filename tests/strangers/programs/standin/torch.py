"""The part of torch that InfiniStore's benchmark needs: buffers of random numbers."""

import numpy

float32 = numpy.float32


class Tensor(numpy.ndarray):
    """An array with torch's names."""

    def data_ptr(self):
        return self.ctypes.data

    def numel(self):
        return self.size

    def element_size(self):
        return self.itemsize

    def cpu(self):
        return self


def rand(count, device="cpu", dtype=float32):
    """Numbers between 0 and 1."""
    assert device == "cpu"
    return numpy.random.default_rng().random(count, dtype=dtype).view(Tensor)


def equal(one, other):
    """Whether two buffers have the same values."""
    return bool(numpy.array_equal(one, other))
