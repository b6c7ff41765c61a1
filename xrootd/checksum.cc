#include "checksum.hh"

#include "descriptor.hh"

#include <XProtocol/XProtocol.hh>
#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <rfio_api.h>
#include <vector>

using namespace XrdCl;

namespace rfio
{

const char *const checksum_kinds = "0:adler32,1:crc32c";

/* Adler-32 (RFC 1950, chapter 9). */
class Adler
{
public:
	void append(const unsigned char *bytes, size_t count)
	{
		/* This number of bytes of 255 cannot overflow 32 bits, so one remainder for all of them suffices. */
		const size_t most = 5552;
		const uint32_t modulus = 65521;
		while (count > 0) {
			const size_t now = std::min(count, most);
			for (size_t index = 0; index < now; index++) {
				one += bytes[index];
				two += one;
			}
			one %= modulus;
			two %= modulus;
			bytes += now;
			count -= now;
		}
	}

	uint32_t sum() const { return two << 16 | one; }

private:
	uint32_t one = 1, two = 0;
};

static int adler32(int descriptor, uint32_t *sum)
{
	std::vector<unsigned char> piece(8 << 20);
	Adler adler;
	for (__off64_t offset = 0;;) {
		const ssize_t read = rfio_pread64(descriptor, piece.data(), piece.size(), offset);
		if (read < 0)
			return -1;
		if (read == 0)
			break;
		adler.append(piece.data(), static_cast<size_t>(read));
		offset += read;
	}
	*sum = adler.sum();
	return 0;
}

/* The value of a parameter in `name=value&name=value`. */
static std::string value_of(const std::string &parameters, const std::string &name)
{
	for (size_t at = 0; at < parameters.size();) {
		const size_t end = std::min(parameters.find('&', at), parameters.size());
		if (parameters.compare(at, name.size() + 1, name + "=") == 0)
			return parameters.substr(at + name.size() + 1, end - at - name.size() - 1);
		at = end + 1;
	}
	return "";
}

Outcome checksum_of(const std::string &name, const std::string &parameters)
{
	const std::string wanted = value_of(parameters, "cks.type");
	const std::string kind = wanted.empty() ? "adler32" : wanted;
	if (kind != "adler32" && kind != "crc32c")
		return refusal(kXR_Unsupported, "checksum '" + kind + "' is not supported; use adler32 or crc32c");

	const Descriptor file(rfio_open64(name.c_str(), O_RDONLY));
	uint32_t sum = 0;
	if (file.number() < 0 ||
	    (kind == "crc32c" ? rfio_checksum(file.number(), &sum) : adler32(file.number(), &sum)) < 0)
		return failure(name);
	char hex[9];
	snprintf(hex, sizeof hex, "%08x", static_cast<unsigned>(sum));
	auto answer = std::make_unique<Buffer>();
	answer->FromString(kind + " " + hex);
	return answer;
}

}
