// Bytes between processes that a launcher started: what a part such as that for MPI provides.
#pragma once

#include <cstddef>
#include <span>

namespace lpmm {

// Used by one thread, the one that opened it. No call waits for another process, but finish().
class Wire {
 public:
  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Begin to send bytes to a rank, or to fill bytes with what it sends on that channel: as many, in the order
  // of calls. They stay in place until is_done() of the number that is returned, which is asked no more then.
  // All throw RunError where the transfer has failed.
  virtual int send(int rank, int channel, std::span<const std::byte> bytes) = 0;
  virtual int receive(int rank, int channel, std::span<std::byte> bytes) = 0;
  virtual bool is_done(int transfer) = 0;
  virtual void finish() = 0;  // all ranks call it, at the end
};

// What a part exports: its interface, kWireInterface where it fits this program, and the wire, which may take
// as long as other processes do.
inline constexpr const char* kWireInterface = "lpmm wire 1";
extern "C" using WireInterface = const char * (*)();
extern "C" using OpenWire = Wire * (*)();

}  // namespace lpmm
