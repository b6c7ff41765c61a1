#include "worker.hh"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

using namespace XrdCl;

namespace rfio
{

struct Worker::Queue
{
	std::mutex lock;
	std::condition_variable changed;
	std::deque<std::function<void()>> requests;
	bool ends = false;

	/* The queue of the current thread. */
	static thread_local const Queue *current;

	/* Executes the waiting requests, the oldest first. */
	void drain(std::unique_lock<std::mutex> &held)
	{
		while (!requests.empty()) {
			{
				const std::function<void()> request = std::move(requests.front());
				requests.pop_front();
				held.unlock();
				request();
			}
			held.lock();
		}
	}

	void work()
	{
		current = this;
		std::unique_lock<std::mutex> held(lock);
		while (!ends || !requests.empty()) {
			drain(held);
			changed.wait(held, [this] { return ends || !requests.empty(); });
		}
	}
};

thread_local const Worker::Queue *Worker::Queue::current = nullptr;

Worker::Worker() : queue(std::make_shared<Queue>())
{
	std::thread([queue = queue] { queue->work(); }).detach();
}

Worker::~Worker()
{
	const std::lock_guard<std::mutex> held(queue->lock);
	queue->ends = true;
	queue->changed.notify_one();
}

void Worker::ask(std::function<void()> request)
{
	const std::lock_guard<std::mutex> held(queue->lock);
	queue->requests.push_back(std::move(request));
	queue->changed.notify_one();
}

/* Turns an exception into a failed request, as it must not leave the thread. */
static Outcome carried_out(const std::function<Outcome()> &request)
{
	try {
		return request();
	} catch (const std::exception &error) {
		return XRootDStatus(stError, errInternal, 0, error.what());
	}
}

XRootDStatus Worker::ask(ResponseHandler *handler, std::function<Outcome()> request)
{
	ask([handler, request = std::move(request)] { carried_out(request).tell(handler); });
	return done();
}

void Worker::finish(std::function<void()> request)
{
	const std::shared_ptr<Queue> own = queue;
	ask(std::move(request));
	if (Queue::current == own.get()) {
		std::unique_lock<std::mutex> held(own->lock);
		own->drain(held);
	}
}

XRootDStatus Worker::finish(ResponseHandler *handler, std::function<Outcome()> request)
{
	finish([handler, request = std::move(request)] { carried_out(request).tell(handler); });
	return done();
}

}
