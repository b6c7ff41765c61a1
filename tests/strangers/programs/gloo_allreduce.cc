// Two processes of gloo sum vectors of several lengths over its transport of verbs, and compare every element.
//
//     gloo_allreduce STORE DEVICE GID_INDEX RANK

#include <cstdio>
#include <cstdlib>
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

	for (size_t count : {1, 1000, 100000}) {
		std::vector<float> values(count);
		for (size_t place = 0; place < count; place++)
			values[place] = float(place % 1000) * float(rank + 1);
		// One of the algorithms that this transport has: it knows no unbound buffers.
		gloo::AllreduceRing<float> sum(context, {values.data()}, int(count));
		sum.run();
		for (size_t place = 0; place < count; place++)
			if (values[place] != float(place % 1000) * 3) {
				std::printf("rank %d: element %zu of %zu is %f\n", rank, place, count, values[place]);
				return 1;
			}
	}
	std::printf("rank %d: every sum is right\n", rank);
	return 0;
}
