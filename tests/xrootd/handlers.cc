/* XrdCl's guarantees for handlers that no program of XRootD's uses: pages with their checksums, a file that is closed
 * by its own handler or while it is read, requests in their order. Arguments: a URL, the local original of its file. */
#include <XrdCl/XrdClFile.hh>
#include <XrdOuc/XrdOucCRC.hh>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

using namespace XrdCl;

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

/* Passes on the response. */
class Promised : public ResponseHandler
{
public:
	explicit Promised(std::function<void(XRootDStatus, AnyObject *)> then) : then(std::move(then)) {}

	void HandleResponse(XRootDStatus *status, AnyObject *response) override
	{
		const std::unique_ptr<XRootDStatus> told(status);
		const std::unique_ptr<AnyObject> own(response);
		then(*told, response);
		delete this;
	}

private:
	std::function<void(XRootDStatus, AnyObject *)> then;
};

static std::string original, url;

static void pages()
{
	File file;
	CHECK(file.Open(url, OpenFlags::Read).IsOK());
	for (const uint64_t offset : {uint64_t(0), uint64_t(4096), uint64_t(5000), original.size() - 9000}) {
		std::vector<char> buffer(20000);
		std::vector<uint32_t> sums;
		uint32_t read = 0;
		CHECK(file.PgRead(offset, buffer.size(), buffer.data(), sums, read).IsOK());
		CHECK(read == std::min<uint64_t>(buffer.size(), original.size() - offset));
		CHECK(original.compare(offset, read, buffer.data(), read) == 0);
		uint64_t at = offset;
		for (const uint32_t sum : sums) {
			const uint64_t end = std::min((at / 4096 + 1) * 4096, offset + read);
			CHECK(XrdOucCRC::Calc32C(original.data() + at, end - at) == sum);
			at = end;
		}
		CHECK(at == offset + read);
	}
	CHECK(file.Close().IsOK());
}

/* The handler deletes its file, from the file's own thread. */
static void let_go_by_its_handler()
{
	auto file = std::make_shared<File>();
	std::vector<char> buffer(1 << 20);
	std::promise<bool> done;
	CHECK(file->Open(url, OpenFlags::Read).IsOK());
	File *const plain = file.get();
	auto *handler = new Promised([&, own = std::move(file)](XRootDStatus status, AnyObject *) mutable {
		own.reset();
		done.set_value(status.IsOK());
	});
	CHECK(plain->Read(0, buffer.size(), buffer.data(), handler).IsOK());
	CHECK(done.get_future().get());
	CHECK(original.compare(0, buffer.size(), buffer.data(), buffer.size()) == 0);
}

/* Requests before a file is closed are still answered, in their order. */
static void let_go_while_it_is_read()
{
	const int count = 20;
	std::vector<std::vector<char>> buffers(count, std::vector<char>(100000));
	std::vector<int> order;
	std::promise<void> all;
	{
		File file;
		CHECK(file.Open(url, OpenFlags::Read).IsOK());
		for (int i = 0; i < count; i++) {
			auto *handler = new Promised([&, i](XRootDStatus status, AnyObject *) {
				CHECK(status.IsOK());
				order.push_back(i);
				if (order.size() == static_cast<size_t>(count))
					all.set_value();
			});
			CHECK(file.Read(i * 100000, 100000, buffers[i].data(), handler).IsOK());
		}
	}
	all.get_future().get();
	for (int i = 0; i < count; i++) {
		CHECK(order[i] == i);
		CHECK(original.compare(i * 100000, 100000, buffers[i].data(), 100000) == 0);
	}
}

int main(int count, char **arguments)
{
	CHECK(count == 3);
	url = arguments[1];
	std::ifstream file(arguments[2], std::ios::binary);
	original.assign(std::istreambuf_iterator<char>(file), {});
	pages();
	let_go_by_its_handler();
	let_go_while_it_is_read();
	puts("all of it");
}
