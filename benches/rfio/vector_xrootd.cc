// Reads the same 1,024 ranges of 4 KiB as vector.c, from an XRootD server by its own client: one vector read at a time.
// vector_xrootd URL BYTES; prints the seconds of each of five runs.
#include <XrdCl/XrdClFile.hh>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

int main(int count, char **arguments)
{
	constexpr int COUNT = 1024, LENGTH = 4096, TIMES = 5;
	const long long size = count == 3 ? atoll(arguments[2]) : 0, part = size / LENGTH / COUNT;
	if (part < 1)
		return 2;
	XrdCl::File file;
	if (auto status = file.Open(arguments[1], XrdCl::OpenFlags::Read); !status.IsOK()) {
		fprintf(stderr, "open: %s\n", status.ToString().c_str());
		return 1;
	}
	std::vector<char> memory(static_cast<size_t>(COUNT) * LENGTH);
	XrdCl::ChunkList list;
	unsigned long long state = 3;
	for (int i = 0; i < COUNT; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		const long long offset = (i * 389LL % COUNT * part + static_cast<long long>((state >> 20) % part)) * LENGTH;
		list.emplace_back(offset, LENGTH, memory.data() + static_cast<size_t>(i) * LENGTH);
	}
	for (int i = 0; i < TIMES; i++) {
		const auto start = std::chrono::steady_clock::now();
		XrdCl::VectorReadInfo *answer = nullptr;
		const auto status = file.VectorRead(list, nullptr, answer);
		const std::unique_ptr<XrdCl::VectorReadInfo> owned(answer);
		if (!status.IsOK() || answer->GetSize() != memory.size()) {
			fprintf(stderr, "vector read: %s\n", status.ToString().c_str());
			return 1;
		}
		const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
		printf("%.9f\n", took.count());
	}
	return !file.Close().IsOK();
}
