#include "experiments/plots/tensorboard.h"

#include <bit>
#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "experiments/plots/records.h"

namespace lpmm {
namespace {

// ---- protocol buffers, as far as an Event needs them ---------------------------------------------------
enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
template <class T>
void put_fixed(std::string& out, T value) {  // little-endian
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}
void put_key(std::string& out, unsigned field, Wire wire) {
  put_varint(out, field << 3 | static_cast<unsigned>(wire));
}
void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// ---- records -------------------------------------------------------------------------------------------
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

void put_record(std::string& out, std::string_view event) {
  std::string length;
  put_fixed<std::uint64_t>(length, event.size());
  out += length;
  put_fixed(out, masked_crc(length));
  out += event;
  put_fixed(out, masked_crc(event));
}

std::string event_at(double wall_time, std::int64_t step) {
  std::string event;
  put_key(event, 1, Wire::kFixed64);
  put_fixed(event, std::bit_cast<std::uint64_t>(wall_time));
  put_key(event, 2, Wire::kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

// Event.summary.value of tag and simple_value.
std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, double number) {
  std::string value, summary, event = event_at(wall_time, step);
  put_bytes(value, 1, tag);
  put_key(value, 2, Wire::kFixed32);
  put_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
  put_bytes(summary, 1, value);
  put_bytes(event, 5, summary);
  return event;
}

// Seconds since 1970 of a record's time; 0 where it has none.
double seconds_of(const std::string& time) {
  std::tm utc{};
  const char* end = strptime(time.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return end != nullptr && *end == '\0' ? static_cast<double>(timegm(&utc)) : 0;
}

}  // namespace

std::string tensorboard_events(std::span<const Json> records) {
  double start = 0;
  for (const Json& record : records) {
    if (start == 0 && text_in(record, "type") == "system") start = seconds_of(text_in(record, "time"));
  }
  std::string out, version = event_at(start, 0);
  put_bytes(version, 3, "brain.Event:2");
  put_record(out, version);
  for (const Scalar& s : scalars_of(records)) {
    put_record(out, scalar_event(start + s.seconds, s.step, s.tag, s.value));
  }
  return out;
}

}  // namespace lpmm
