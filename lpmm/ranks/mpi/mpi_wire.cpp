// The wire over MPI. For another MPI than the one of the build, with its own compiler:
//   mpicxx -std=c++20 -O2 -fPIC -shared -I. lpmm/ranks/mpi/mpi_wire.cpp -o liblpmm_mpi.so
#include <mpi.h>

#include <string>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/ranks/wire.h"

namespace lpmm {
namespace {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RunError(std::string("MPI cannot ") + what + ": " + text);
}

class MpiWire final : public Wire {
 public:
  MpiWire() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "start");
    if (provided < MPI_THREAD_FUNNELED) throw RunError("this MPI is not for programs with threads");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int send(int rank, int channel, std::span<const std::byte> bytes) override {
    const int place = free_place();
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, channel, MPI_COMM_WORLD,
                    &transfers_[static_cast<std::size_t>(place)]),
          "send");
    return place;
  }
  int receive(int rank, int channel, std::span<std::byte> bytes) override {
    const int place = free_place();
    check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, channel, MPI_COMM_WORLD,
                    &transfers_[static_cast<std::size_t>(place)]),
          "receive");
    return place;
  }
  bool is_done(int transfer) override {
    int done = 0;
    check(MPI_Test(&transfers_[static_cast<std::size_t>(transfer)], &done, MPI_STATUS_IGNORE), "go on");
    if (done != 0) free_.push_back(transfer);
    return done != 0;
  }
  void finish() override { MPI_Finalize(); }

 private:
  int free_place() {
    if (free_.empty()) {
      free_.push_back(static_cast<int>(transfers_.size()));
      transfers_.push_back(MPI_REQUEST_NULL);
    }
    const int place = free_.back();
    free_.pop_back();
    return place;
  }

  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> transfers_;
  std::vector<int> free_;
};

}  // namespace
}  // namespace lpmm

extern "C" const char* lpmm_wire_interface() {
  return lpmm::kWireInterface;
}
extern "C" lpmm::Wire* lpmm_open_wire() {
  return new lpmm::MpiWire;
}
