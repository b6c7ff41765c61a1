/* An open file of the C library, closed by the destructor. */
#ifndef RFIO_XROOTD_DESCRIPTOR_HH
#define RFIO_XROOTD_DESCRIPTOR_HH

#include <rfio_api.h>

namespace rfio
{

class Descriptor
{
public:
	explicit Descriptor(int number) : value(number) {}
	~Descriptor()
	{
		if (value >= 0)
			rfio_close(value);
	}

	Descriptor(const Descriptor &) = delete;
	Descriptor &operator=(const Descriptor &) = delete;

	/* -1 if opening failed. */
	int number() const { return value; }

private:
	int value;
};

}

#endif
