// Two processes of gloo sum vectors of several lengths over its transport of verbs, and compare every element.
//
//     gloo_allreduce STORE DEVICE GID_INDEX RANK

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include <gloo/allreduce_ring.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

int main(int, char **words)
{
	const int rank = std::atoi(words[4]), ranks = 2;
	gloo::transport::ibverbs::attr attributes;
	attributes.name = words[2];
	attributes.port = 1;
	attributes.index = std::atoi(words[3]);
	auto device = gloo::transport::ibverbs::CreateDevice(attributes);
	gloo::rendezvous::FileStore store(words[1]);
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
	context->connectFullMesh(store, device);

	// Their buffers must not end before the thread of the transport has seen the last send complete.
	std::vector<std::unique_ptr<gloo::AllreduceRing<float>>> sums;
	std::deque<std::vector<float>> kept;
	for (size_t count : {1, 1000, 100000}) {
		std::vector<float> &values = kept.emplace_back(count);
		for (size_t place = 0; place < count; place++)
			values[place] = float(place % 1000) * float(rank + 1);
		// One of the algorithms that this transport has: it supports no unbound buffers.
		sums.push_back(std::make_unique<gloo::AllreduceRing<float>>(context, std::vector<float *>{values.data()}, int(count)));
		sums.back()->run();
		for (size_t place = 0; place < count; place++)
			if (values[place] != float(place % 1000) * 3) {
				std::printf("rank %d: element %zu of %zu is %f\n", rank, place, count, values[place]);
				return 1;
			}
	}
	std::this_thread::sleep_for(std::chrono::seconds(1));
	std::printf("rank %d: every sum is right\n", rank);
	return 0;
}
