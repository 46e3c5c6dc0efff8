// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exports a synthesized schedule: as C++ to compile in, as a plan of MSCCL++, or as a Chakra trace. Opt-in.
#pragma once

#include <kolo/core/rank.hpp>
#include <kolo/schedule/synthesized.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <locale>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::adapt {

/// The messages of one rank in one round.
struct messages_of_round {
  std::vector<const scheduled_message*> sent{}, received{};
};
inline std::vector<messages_of_round> messages_of(const schedule_table& t, int rank) {
  std::vector<messages_of_round> all(std::size_t(t.rounds));
  for (const scheduled_message& m : t.messages) {
    if (m.from == rank) all[std::size_t(m.round)].sent.push_back(&m);
    if (m.to == rank) all[std::size_t(m.round)].received.push_back(&m);
  }
  return all;
}

/// The operations of one rank in a plan of MSCCL++, in one thread block: in every round it puts what it sends, then
/// waits for what it receives. What it combines arrives in scratch memory, each block in a place of its own.
class mscclpp_rank {
 public:
  mscclpp_rank(const schedule_table& t, int rank, const std::vector<int>& scratch_begin)
      : t_{t}, rank_{rank}, scratch_begin_{scratch_begin} {
    std::set<int> peers;
    for (const scheduled_message& m : t.messages) {
      if (m.from == rank) peers.insert(m.to);
      if (m.to == rank) peers.insert(m.from);
      if (m.to == rank && m.then != arrival::replace) scratch_ += m.count;
    }
    peers_.assign(peers.begin(), peers.end());
  }

  nlohmann::json plan(int input_chunks, int output_chunks, const char* data) {
    data_ = data;
    for (std::size_t c = 0; c < peers_.size(); ++c) signal("signal", c);  // each peer has begun this call, too
    for (std::size_t c = 0; c < peers_.size(); ++c) signal("wait", c);
    for (const auto& round : messages_of(t_, rank_)) add(round);
    nlohmann::json ids = nlohmann::json::array(), buffers = nlohmann::json::array(), refs = ids;
    for (std::size_t c = 0; c < peers_.size(); ++c) {
      ids.push_back(c), refs.push_back(2 * c), refs.push_back(2 * c + 1);
      for (const char* type : {data, "s"})
        buffers.push_back({{"rank", peers_[c]}, {"type", type}, {"access_channel_types", {"memory"}}});
    }
    return {{"id", rank_},
            {"input_chunks", input_chunks},
            {"output_chunks", output_chunks},
            {"scratch_chunks", scratch_},
            {"threadblocks",
             {{{"id", 0},
               {"ops", ops_},
               {"channels", {{{"channel_type", "memory"}, {"channel_ids", ids}}}},
               {"remote_buffer_refs", {{{"access_channel_type", "memory"}, {"remote_buffer_ids", refs}}}}}}},
            {"channels", {{{"channel_type", "memory"}, {"connected_to", peers_}}}},
            {"remote_buffers", buffers},
            {"semaphores", nlohmann::json::array()}};
  }

 private:
  std::size_t channel(int peer) const {
    return std::size_t(std::lower_bound(peers_.begin(), peers_.end(), peer) - peers_.begin());
  }
  int scratch_of(const scheduled_message& m) const { return scratch_begin_[std::size_t(&m - t_.messages.data())]; }
  static nlohmann::json local(const char* type, int index, int size) {
    return {{"type", type}, {"index", index}, {"size", size}};
  }
  void signal(const char* what, std::size_t c) {
    ops_.push_back({{"name", what}, {"channel_ids", {c}}, {"channel_type", "memory"}});
  }
  void wait_for_threads() { ops_.push_back({{"name", "nop"}}); }

  void add(const messages_of_round& round) {
    if (round.sent.empty() && round.received.empty()) return;
    wait_for_threads();
    for (const scheduled_message* m : round.sent) {
      const bool combined = m->then != arrival::replace;
      const std::size_t c = channel(m->to);
      ops_.push_back({{"name", "put"},
                      {"src_buff", {local(data_, m->first, m->count)}},
                      {"dst_buff",
                       {{{"buffer_id", combined ? 2 * c + 1 : 2 * c},
                         {"index", combined ? scratch_of(*m) : m->first},
                         {"size", m->count}}}},
                      {"channel_ids", {c}},
                      {"channel_type", "memory"}});
    }
    if (!round.sent.empty()) wait_for_threads();
    for (const scheduled_message* m : round.sent) signal("signal", channel(m->to));
    for (const scheduled_message* m : round.received) signal("wait", channel(m->from));
    if (!round.received.empty()) wait_for_threads();
    for (const scheduled_message* m : round.received)
      if (m->then != arrival::replace)
        ops_.push_back({{"name", "re"},
                        {"src_buff", {local(data_, m->first, m->count), local("s", scratch_of(*m), m->count)}},
                        {"dst_buff", {local(data_, m->first, m->count)}},
                        {"reduce_op", "sum"}});
  }

  const schedule_table& t_;
  int rank_;
  const std::vector<int>& scratch_begin_;  // first block of each message
  std::vector<int> peers_{};               // ascending
  int scratch_ = 0;
  const char* data_ = "i";
  nlohmann::json ops_ = nlohmann::json::array();
};

/// The wire format of protocol buffers, as far as a Chakra trace needs it.
class protobuf {
 public:
  void number(int field, std::uint64_t value) { tag(field, 0), varint(value); }
  void text(int field, std::string_view bytes) {
    tag(field, 2), varint(bytes.size());
    out_ += bytes;
  }
  void varint(std::uint64_t v) {
    for (; v >= 128; v >>= 7) out_ += char(v % 128 + 128);
    out_ += char(v);
  }
  const std::string& bytes() const { return out_; }

 private:
  void tag(int field, unsigned type) { varint(unsigned(field) << 3 | type); }
  std::string out_{};
};

/// Writes the nodes of one rank's trace, in schema 0.0.4, which ASTRA-sim reads.
class chakra_writer {
 public:
  enum node_type : unsigned { compute = 4, send = 5, receive = 6 };

  chakra_writer() {
    protobuf head;
    head.text(1, "0.0.4");
    add(head);
  }
  /// Adds a node and returns its number.
  std::uint64_t node(node_type type, const std::string& name, const std::vector<std::uint64_t>& after,
                     std::size_t bytes, int from, int to, int tag) {
    protobuf n;
    n.number(1, next_), n.text(2, name), n.number(3, type);
    for (const std::uint64_t id : after) n.number(5, id);
    attribute(n, "is_cpu_op", 27, 0);
    if (type != compute) {
      attribute(n, "comm_size", 9, bytes);
      attribute(n, "comm_src", 7, std::uint64_t(from));
      attribute(n, "comm_dst", 7, std::uint64_t(to));
      attribute(n, "comm_tag", 7, std::uint64_t(tag));
    } else {
      attribute(n, "num_ops", 9, bytes);
    }
    add(n);
    return next_++;
  }
  const std::string& bytes() const { return whole_; }

 private:
  static void attribute(protobuf& n, const char* name, int field, std::uint64_t value) {
    protobuf a;
    a.text(1, name), a.number(field, value);
    n.text(10, a.bytes());
  }
  void add(const protobuf& message) {
    protobuf framed;
    framed.varint(message.bytes().size());
    whole_ += framed.bytes() + message.bytes();
  }

  std::string whole_{};
  std::uint64_t next_ = 1;
};

/// Returns for each combined message its first block in the receiver's scratch memory.
inline std::vector<int> scratch_places(const schedule_table& t) {
  std::vector<int> used(std::size_t(t.ranks)), all;
  for (const scheduled_message& m : t.messages) {
    int& here = used[std::size_t(m.to)];
    all.push_back(here);
    if (m.then != arrival::replace) here += m.count;
  }
  return all;
}

}  // namespace detail::adapt

/// Returns C++ that defines the schedule as a type of this name with a constant table. Include it, and pass `my_ring{}`
/// to calls, `verify`, `draw`, or to `is_allreduce` in a `static_assert`. It needs <kolo/schedule/schedule.hpp> only.
inline std::string as_source(const synthesized& s, const std::string& name) {
  const schedule_table& t = s.table();
  const bool is_rooted = t.collective == kind::broadcast || t.collective == kind::reduce;
  std::ostringstream out, transfers, begins;
  for (auto* each : {&out, &transfers, &begins}) each->imbue(std::locale::classic());
  std::size_t count = 0;
  s.with_schedule([&](const auto& one) {
    for (int k = 0; k < t.rounds; ++k)
      for (int r = 0; r < t.ranks; ++r) {
        begins << count << (r + 1 < t.ranks ? "," : ",\n      ");
        for (const transfer& x : one.at(r, t.ranks, k)) {
          transfers << "{{" << x.to.first << ',' << x.to.count << "},{" << x.send.first << ',' << x.send.count << "},{"
                    << x.from.first << ',' << x.from.count << "},{" << x.receive.first << ',' << x.receive.count
                    << "},kolo::arrival(" << int(x.then) << ")}," << (++count % 4 == 0 ? "\n      " : "");
        }
      }
  });
  out << "// A schedule that kolo::synthesize has made.\n#pragma once\n\n#include <kolo/schedule/schedule.hpp>\n\n"
      << "struct " << name << " {\n  static constexpr auto collective = kolo::kind::" << kolo::name(t.collective)
      << ";\n"
      << "  constexpr bool supports(int p) const { return p == " << t.ranks
      << (is_rooted ? " && root == " + std::to_string(t.root) : std::string{}) << "; }\n"
      << "  static constexpr int blocks(int) { return " << t.blocks << "; }\n"
      << "  static constexpr int rounds(int) { return " << t.rounds << "; }\n"
      << "  static constexpr int reduce_rounds(int) { return " << t.reduce_rounds << "; }\n"
      << "  static constexpr kolo::step at(int rank, int, int round) {\n    kolo::step now;\n"
      << "    for (int i = begins[round * " << t.ranks << " + rank]; i < begins[round * " << t.ranks
      << " + rank + 1]; ++i) now += transfers[i];\n    return now;\n  }\n"
      << (is_rooted ? "  int root = " + std::to_string(t.root) + ";\n" : std::string{}) << "\n private:\n"
      << "  static constexpr int begins[] = {\n      " << begins.str() << count << "};\n"
      << "  static constexpr kolo::transfer transfers[] = {\n      " << transfers.str() << "};\n};\n";
  return out.str();
}

/// Returns a plan for the executor of MSCCL++: allreduce, reduce_scatter, allgather or broadcast, in place, over memory
/// channels, with a sum. `name` is the plan's. Written from the source of the loader and simulated by a test; not run
/// on devices.
/// Errors  std::invalid_argument: a reduce, which MSCCL++ has no plans for.
inline nlohmann::json mscclpp_plan(const synthesized& s, const std::string& name) {
  const schedule_table& t = s.table();
  if (t.collective == kind::reduce) throw std::invalid_argument("kolo: MSCCL++ has no plans for a reduce");
  const bool gathers = t.collective == kind::allgather, scatters = t.collective == kind::reduce_scatter;
  const std::vector<int> scratch = detail::adapt::scratch_places(t);
  nlohmann::json gpus = nlohmann::json::array();
  for (int r = 0; r < t.ranks; ++r)
    gpus.push_back(detail::adapt::mscclpp_rank{t, r, scratch}.plan(
        gathers ? t.blocks / t.ranks : t.blocks, scatters ? t.blocks / t.ranks : t.blocks, gathers ? "o" : "i"));
  return {{"name", name},
          {"collective", scatters ? "reducescatter" : kolo::name(t.collective)},
          {"protocol", "Simple"},
          {"inplace", true},
          {"reuse_resources", false},
          {"gpus", gpus},
          {"num_threads_per_block", 1024},
          {"use_double_scratch_buffer", false},
          {"buffer_alignment", 16},
          {"min_message_size", 0},
          {"max_message_size", UINT64_MAX}};
}

/// Returns one rank's Chakra trace, in schema 0.0.4, for a vector of `bytes` bytes. ASTRA-sim takes one file per rank,
/// `name.0.et`, `name.1.et`, ..., as the implementation of a collective. A round begins when all messages of earlier
/// rounds have arrived and have been combined.
inline std::string chakra_trace(const synthesized& s, int rank, std::size_t bytes) {
  using writer = detail::adapt::chakra_writer;
  const schedule_table& t = s.table();
  writer out;
  std::vector<std::uint64_t> before;
  for (const auto& round : detail::adapt::messages_of(t, rank)) {
    std::vector<std::uint64_t> now;
    const auto length = [&](const scheduled_message& m) {
      std::size_t all = 0;
      for (int b = m.first; b < m.first + m.count; ++b) all += block(bytes, t.blocks, b).count;
      return all;
    };
    const auto tag = [&](const scheduled_message& m) { return int(&m - t.messages.data()); };
    for (const scheduled_message* m : round.sent)
      out.node(writer::send, "send", before, length(*m), m->from, m->to, tag(*m));
    for (const scheduled_message* m : round.received) {
      now.push_back(out.node(writer::receive, "receive", before, length(*m), m->from, m->to, tag(*m)));
      if (m->then != arrival::replace)
        now.back() = out.node(writer::compute, "combine", {now.back()}, length(*m), 0, 0, 0);
    }
    if (!now.empty()) before = now;
  }
  return out.bytes();
}

}  // namespace kolo::inline KOLO_ABI
