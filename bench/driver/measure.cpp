// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Selects the contestants of a comparison, the length of the bursts, and their order.
#include "measure.hpp"

#include <algorithm>

namespace kolo_bench {

namespace {

using namespace std::chrono_literals;
constexpr auto backoff = 120s;

bool is_ours(const std::string& implementation) {
  return implementation == "floor" || implementation.starts_with("kolo");
}

bool lists(const std::vector<std::string>& list, const std::string& name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

command command_for(const cell& c, const std::string& algorithm, const std::string& buffers) {
  command made{};
  made.collective = c.collective;
  made.algorithm = algorithm;
  made.element = c.element;
  made.place = c.place;
  made.buffers = buffers;
  made.mode = c.mode;
  made.bytes = c.bytes;
  made.iterations = 1;
  made.batch = 1;
  return made;
}

std::string distance(double before, double after) {
  const bool near_before = before < ping_pong::near_below, near_after = after < ping_pong::near_below;
  return near_before != near_after ? "mixed" : near_after ? "near" : "far";
}

std::string text(const cell& c) {
  return c.collective + ' ' + std::to_string(c.bytes) + " bytes, " + std::to_string(c.ranks) + " ranks, " + c.element +
         ", " + c.place + ", " + c.mode;
}

/// Adds the lifetime of the object to a sum.
class stopwatch {
 public:
  explicit stopwatch(double& seconds) : seconds_{seconds} {}
  stopwatch(const stopwatch&) = delete;
  ~stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

measurement::measurement(std::vector<recipe> recipes, plan p, std::function<void(const std::string&)> say)
    : recipes_{std::move(recipes)}, plan_{std::move(p)}, say_{std::move(say)} {}

void measurement::leave_out(const std::string& implementation, const std::string& sentence) {
  sentences_.push_back(sentence);
  say_("LEFT OUT: " + sentence);
  own_failed_ = own_failed_ || is_ours(implementation);
}

group* measurement::group_of(const recipe& r, int ranks) {
  const auto key = r.name + ' ' + std::to_string(ranks);
  if (const auto found = groups_.find(key); found != groups_.end()) return found->second.get();
  auto& made = groups_[key];
  try {
    made = std::make_unique<group>(r, ranks, 60s);
    versions_[r.name] = made->version();
    overheads_[key] = made->overhead();
    settings_[r.name + (is_oversubscribed(ranks) ? ", more ranks than cores" : "")] = settings_of(r, ranks);
  } catch (const group_error& e) {
    leave_out(r.name, e.what());
  }
  return made.get();
}

std::vector<measurement::contestant> measurement::contestants(const comparison& c) {
  std::vector<contestant> all;
  for (const auto& r : recipes_) {
    if (!lists(c.implementations, r.name) ||
        (r.name == "floor" && (c.where.ranks != 2 || c.where.collective != "allreduce")))
      continue;
    group* const ranks = group_of(r, c.where.ranks);
    if (!ranks) continue;
    const bool kolo = r.name.starts_with("kolo");
    for (const auto& offer : ranks->offers()) {
      const auto slash = offer.find('/');
      const auto algorithm = offer.substr(slash + 1);
      if (offer.substr(0, slash) != c.where.collective || (kolo && !lists(c.algorithms, algorithm))) continue;
      found_.insert({c.where.collective, algorithm});
      for (const auto& buffers : c.buffers)
        if (is_ours(r.name) || buffers == "ordinary") all.push_back({r.name, algorithm, buffers, ranks});
    }
  }
  return all;
}

/// A contestant with a wrong result has no row.
bool measurement::is_done(const cell& c, contestant& who, const burst& b) {
  if (b.what == outcome::wrong) {
    who.samples.clear();
    leave_out(who.implementation, who.implementation + ' ' + who.algorithm + ", " + text(c) + ": " + b.sentence);
  }
  return b.what == outcome::done;
}

/// First bursts, which are not counted: check the result, and find the number of windows that fit into a burst.
bool measurement::calibrate(const cell& c, contestant& who) {
  const stopwatch spent{who.seconds};
  auto first = command_for(c, who.algorithm, who.buffers);
  const bool back_to_back = c.mode == "back_to_back";
  const auto start = std::chrono::steady_clock::now();
  const auto tried = who.ranks->run(first, backoff);
  const std::chrono::duration<double> first_took = std::chrono::steady_clock::now() - start;
  if (!is_done(c, who, tried)) return false;
  who.iterations = 1;
  if (plan_.rounds * first_took.count() > plan_.row_seconds) return true;
  first.iterations = 3;
  // ns; oversubscribed ranks do not start at once, but within some tens of microseconds
  const double window_of_many = is_oversubscribed(c.ranks) ? 2e6 : 2e5;
  const auto calls_within_it = [&](const burst& b, double most) {
    return static_cast<int>(std::clamp(window_of_many / quantile(b.times, 0.5), 1.0, most));
  };
  if (back_to_back) first.batch = calls_within_it(tried, 256);  // its first call makes state that later ones use
  const auto before = std::chrono::steady_clock::now();
  const auto again = who.ranks->run(first, backoff);
  if (!is_done(c, who, again)) return false;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
  if (back_to_back) who.batch = calls_within_it(again, 1e5);
  const double window = std::max(took.count() / (first.iterations + 1) * who.batch / first.batch, 0.001);
  const double affordable = 1000 * plan_.row_seconds / (plan_.rounds * window) - 1;
  const auto fit = std::clamp(plan_.burst_milliseconds / window, 3.0, 200.0);
  who.iterations = static_cast<int>(std::max(std::min(fit, affordable), 1.0));
  return true;
}

bool measurement::sample_once(const cell& c, contestant& who, int round) {
  if (!who.samples.empty() && who.seconds > plan_.row_seconds) return true;
  const stopwatch spent{who.seconds};
  auto one = command_for(c, who.algorithm, who.buffers);
  one.iterations = who.iterations;
  one.batch = who.batch;
  const double before = last_ping_pong_;
  const auto b = who.ranks->run(one, backoff);
  last_ping_pong_ = ping_pong_.measure();
  if (!is_done(c, who, b)) return false;
  who.samples.push_back(
      {round, quantile(b.times, 0.5), (before + last_ping_pong_) / 2, distance(before, last_ping_pong_)});
  return true;
}

/// A contestant that fails is out; if its group has failed, so are all others of the group.
template <class F>
void measurement::attempt(const cell& c, std::vector<contestant>& all, contestant& who, F what) {
  if (who.out) return;
  try {
    who.out = !what(who);
  } catch (const group_error& e) {
    leave_out(who.implementation,
              e.what() + std::string{" ("} + who.algorithm + ", " + who.buffers + " buffers: " + text(c) + ')');
    group* const broken = who.ranks;
    for (auto& other : all) other.out = other.out || other.ranks == broken;
    for (const auto& [key, g] : groups_)
      if (g.get() == broken) return forget(key);
  }
}

/// A group that has failed is started again for the next comparison, at most twice.
void measurement::forget(const std::string& key) {
  groups_[key].reset();
  if (++failures_[key] < 3) groups_.erase(key);
}

void measurement::compare(const comparison& c) {
  auto all = contestants(c);
  for (auto& who : all) attempt(c.where, all, who, [&](contestant& w) { return calibrate(c.where, w); });
  last_ping_pong_ = ping_pong_.measure();
  for (int round = 0; round < plan_.rounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& who = all[(i + static_cast<std::size_t>(round)) % all.size()];
      attempt(c.where, all, who, [&](contestant& w) { return sample_once(c.where, w, round); });
    }
  for (auto& who : all)
    if (!who.samples.empty())
      results_.push_back({c.where, who.implementation, who.algorithm, who.buffers, std::move(who.samples)});
}

void measurement::run() {
  for (std::size_t i = 0; i < plan_.comparisons.size(); ++i) {
    const auto& c = plan_.comparisons[i];
    say_(std::to_string(i + 1) + " of " + std::to_string(plan_.comparisons.size()) + ": " + text(c.where));
    compare(c);
  }
  std::set<std::string> asked;
  for (const auto& c : plan_.comparisons) {
    asked.insert(c.where.collective);
    asked.insert(c.algorithms.begin(), c.algorithms.end());
  }
  for (const auto& name : asked)
    if (!found_.contains(name)) leave_out("", name + ": no implementation in this run offers it");
}

}  // namespace kolo_bench
