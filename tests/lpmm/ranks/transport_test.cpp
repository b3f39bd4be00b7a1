#include "lpmm/ranks/transport.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/lpmm/said.h"

namespace lpmm {
namespace {

// What is on its way between ranks that are threads of this process.
struct Mail {
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> letters;  // from, to, channel
};

class ThreadWire final : public Wire {
 public:
  ThreadWire(std::shared_ptr<Mail> mail, int rank, int size)
      : mail_(std::move(mail)), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int send(int rank, int channel, std::span<const std::byte> bytes) override {
    const std::scoped_lock lock(mail_->mutex);
    mail_->letters[{rank_, rank, channel}].emplace_back(bytes.begin(), bytes.end());
    return add({});
  }
  int receive(int rank, int channel, std::span<std::byte> bytes) override {
    return add({true, rank, channel, bytes});
  }
  bool is_done(int transfer) override {
    const Receipt& wanted = transfers_[static_cast<std::size_t>(transfer)];
    if (!wanted.is_open) return true;
    const std::scoped_lock lock(mail_->mutex);
    auto& letters = mail_->letters[{wanted.from, rank_, wanted.channel}];
    if (letters.empty()) return false;
    if (letters.front().size() != wanted.bytes.size()) throw RunError("another length");
    std::ranges::copy(letters.front(), wanted.bytes.begin());
    letters.pop_front();
    return true;
  }
  void finish() override {}

 private:
  struct Receipt {
    bool is_open = false;
    int from = 0, channel = 0;
    std::span<std::byte> bytes;
  };
  int add(const Receipt& transfer) {
    transfers_.push_back(transfer);
    return static_cast<int>(transfers_.size()) - 1;
  }

  std::shared_ptr<Mail> mail_;
  int rank_, size_;
  std::vector<Receipt> transfers_;
};

Slate ending(Ending ending, const std::string& message = "") {
  Slate slate;
  slate.ending = ending;
  message.copy(slate.message, sizeof(slate.message) - 1);
  return slate;
}

// body(transport, ranks) on a thread for each.
template <class Body>
void on_transports(int count, double timeout, const Body& body) {
  const auto mail = std::make_shared<Mail>();
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      Transport transport([&, i] { return std::make_unique<ThreadWire>(mail, i, count); }, timeout);
      transport.wait_until_open();
      WiredRanks ranks(transport);
      body(transport, ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<Transport::Peer> peers_of(int count) {
  std::vector<Transport::Peer> peers;
  for (int i = 0; i < count; ++i) peers.push_back({"rank " + std::to_string(i) + " (host h)", 0});
  return peers;
}

TEST(Transports, ThreadsGatherInOrderWhateverTheLengths) {
  for (const int count : {1, 2, 3}) {
    on_transports(count, 60, [&](Transport& transport, WiredRanks& ranks) {
      // More than one transfer takes, so that several follow each other.
      std::vector<int> mine(static_cast<std::size_t>(1'500'000 * ranks.rank()));
      std::iota(mine.begin(), mine.end(), ranks.rank());
      const std::vector<int> all = ranks.all_of<int>(mine);
      ASSERT_EQ(all.size(), 1'500'000U * static_cast<unsigned>(count * (count - 1) / 2));
      if (count > 1) {
        EXPECT_EQ(all[1'500'000 - 1], 1'500'000);
      }
      EXPECT_TRUE(ranks.any(ranks.rank() == count - 1));
      const auto slates = transport.leave(ending(Ending::kDone));
      EXPECT_TRUE(std::ranges::all_of(slates, [](const Slate& s) { return s.ending == Ending::kDone; }));
      EXPECT_TRUE(transport.finish(5));
    });
  }
}

TEST(Transports, AThreadThatFailsEndsTheOthersWithItsError) {
  on_transports(3, 60, [](Transport& transport, WiredRanks& ranks) {
    transport.know(peers_of(3), nullptr);
    ranks.all(0);  // all know of all
    Slate own = ending(Ending::kFailed, "the disk is full");
    if (ranks.rank() != 1) {
      write_ending(own, [&] { return static_cast<int>(ranks.all(1).size()); });
      EXPECT_EQ(own.ending, Ending::kLost);
      EXPECT_STREQ(own.message, "rank 1 (host h): the disk is full");
    }
    const std::vector<std::string> names = {"0", "rank 1 (host h)", "2"};
    EXPECT_EQ(said([&] { throw_first(transport.leave(own), names); }), "rank 1 (host h): the disk is full");
  });
}

TEST(Transports, AThreadThatIsSilentIsLostAfterTheTimeout) {
  on_transports(2, 0.2, [](Transport& transport, WiredRanks& ranks) {
    transport.know(peers_of(2), nullptr);
    ranks.now_in(12, "update");
    if (ranks.rank() == 0) {
      EXPECT_EQ(said([&] { ranks.all(1); }),
                "rank 1 (host h) has not been heard of for 0.2 s, in step 12 (update)");
    }
    transport.leave(ending(Ending::kLost));
  });
}

TEST(Transports, AProcessOfTheHostThatHasEndedIsLostAtOnce) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const auto mail = std::make_shared<Mail>();
  Transport transport([&] { return std::make_unique<ThreadWire>(mail, 0, 2); }, 60);
  transport.wait_until_open();
  WiredRanks ranks(transport);
  auto peers = peers_of(2);
  peers[1].process = child;
  transport.know(peers, nullptr);
  ranks.now_in(3, "losses");
  EXPECT_EQ(said([&] { ranks.all(1); }), "rank 1 (host h) has ended, in step 3 (losses)");
  EXPECT_EQ(transport.leave(ending(Ending::kLost))[1].ending, Ending::kNone);
}

TEST(Transports, AThreadThatDoesNotListenIsAbandoned) {
  const auto mail = std::make_shared<Mail>();
  std::mutex mutex;
  std::condition_variable changed;
  Transport::Slates told;
  Transport transport([&] { return std::make_unique<ThreadWire>(mail, 0, 2); }, 60);
  transport.wait_until_open();
  transport.know(peers_of(2), [&](const Transport::Slates& slates) {
    const std::scoped_lock lock(mutex);
    told = slates;
    changed.notify_all();
  });
  ThreadWire other(mail, 1, 2);
  const Slate slate = ending(Ending::kFailed, "the disk is full");
  other.send(0, 1, std::as_bytes(std::span(&slate, 1)));
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), [&] { return !told.empty(); }));
  EXPECT_STREQ(told[0].message, "rank 1 (host h): the disk is full");
  EXPECT_EQ(told[1].ending, Ending::kFailed);
}

TEST(Transports, AnErrorAtTheOpeningIsThrown) {
  Transport transport([]() -> std::unique_ptr<Wire> { throw RunError("no such network"); }, 60);
  EXPECT_EQ(said([&] { transport.wait_until_open(); }), "no such network");
}

}  // namespace
}  // namespace lpmm
