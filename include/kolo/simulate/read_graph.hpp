// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads graphs of links from descriptions of machines: an MPI list of hosts, `nvidia-smi topo -m`, sysfs.
#pragma once

#include <kolo/simulate/graph.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::simulate {

/// "0-3,8": 0 1 2 3 8, as the kernel writes it.
inline std::vector<int> numbers_in(const std::string& list) {
  std::vector<int> all;
  std::istringstream parts{list};
  for (std::string part; std::getline(parts, part, ',');) {
    const auto dash = part.find('-');
    const int first = std::stoi(part), last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
    for (int i = first; i <= last; ++i) all.push_back(i);
  }
  return all;
}

/// Ranks of one group are linked to the group's switch. With `own_ports` they are also linked to the one switch between
/// groups; otherwise the groups' switches are.
inline kolo::simulate::graph graph_of_groups(const std::vector<int>& group_of, const kolo::simulate::link& inside,
                                             const kolo::simulate::link& outside, bool own_ports) {
  const int p = int(group_of.size());
  std::map<int, int> switches;  // of the groups, in the order of appearance
  for (const int group : group_of) switches.try_emplace(group, p + 1 + int(switches.size()));
  const int groups = int(switches.size());
  kolo::simulate::graph g{p, groups + 1};
  for (int r = 0; r < p; ++r) {
    g.link(r, switches.at(group_of[std::size_t(r)]), inside);
    if (own_ports && groups > 1) g.link(r, p, outside);
  }
  for (int n = 0; n < groups && groups > 1 && !own_ports; ++n) g.link(p + 1 + n, p, outside);
  return g;
}

/// The matrix of `nvidia-smi topo -m`, GPUs only: of[i][j] is "X", "NV4", "PIX", "SYS", ...
inline std::vector<std::vector<std::string>> matrix_of(const std::string& text) {
  std::vector<std::vector<std::string>> of;
  std::istringstream lines{text};
  std::size_t gpus = 0;
  for (std::string line; std::getline(lines, line);) {
    for (auto escape = line.find('\x1b'); escape != std::string::npos; escape = line.find('\x1b')) {
      const auto end = line.find_first_not_of("[(?0123456789;", escape + 1);  // end of a terminal's escape sequence
      line.erase(escape, end == std::string::npos ? end : end - escape + 1);
    }
    std::istringstream words{line};
    std::vector<std::string> row{std::istream_iterator<std::string>{words}, {}};
    const auto is_gpu = [](const std::string& w) {
      return w.starts_with("GPU") && w.size() > 3 && std::isdigit(static_cast<unsigned char>(w[3])) != 0;
    };
    if (row.empty() || !is_gpu(row[0])) continue;
    const auto is_known = [](const std::string& w) {
      return !w.starts_with("NV") || (w.size() > 2 && w.size() < 6 && w.find_first_not_of("0123456789", 2) == w.npos);
    };
    if (!std::all_of(row.begin(), row.end(), is_known)) break;
    if (gpus == 0) {
      gpus = std::size_t(std::count_if(row.begin(), row.end(), is_gpu));
    } else if (row.size() > gpus && of.size() < gpus) {
      of.emplace_back(row.begin() + 1, row.begin() + 1 + std::ptrdiff_t(gpus));
    }
  }
  if (gpus == 0 || of.size() != gpus)
    throw std::invalid_argument("kolo: this is not a matrix as `nvidia-smi topo -m` prints it");
  return of;
}

}  // namespace detail::simulate

namespace simulate {

/// The ranks of an MPI list of hosts, one host a line: "host", "host:8", "host slots=8"; '#' begins a comment. Ranks
/// are numbered by line; those of a host are joined by `inside`, and each has a port to the network, `outside`.
/// Errors  std::invalid_argument: no host, or an invalid number of ranks.
inline graph graph_of_hosts(const std::string& text, const link& inside, const link& outside) {
  std::vector<int> host_of;
  std::map<std::string, int> hosts;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    std::string host, word, number = "1", list = line.substr(0, line.find('#'));
    std::replace(list.begin(), list.end(), '=', ' ');
    std::istringstream words{list};
    if (!(words >> host)) continue;
    if (const auto colon = host.find(':'); colon != std::string::npos)
      number = host.substr(colon + 1), host.resize(colon);
    while (words >> word)
      if (word == "slots") number.clear(), words >> number;
    if (number.empty() || number.size() > 5 || number.find_first_not_of("0123456789") != std::string::npos)
      throw std::invalid_argument("kolo: a list of hosts with \"" + line + "\"");
    const int node = hosts.try_emplace(host, int(hosts.size())).first->second;
    host_of.insert(host_of.end(), std::size_t(std::stoi(number)), node);
  }
  if (host_of.empty()) throw std::invalid_argument("kolo: a list of hosts must not be empty");
  return detail::simulate::graph_of_groups(host_of, inside, outside, true);
}

/// The links of GPUs; the defaults are about those of an H100 SXM.
struct gpu_links {
  link nvlink{1e-6, 0, 0, 1 / 25e9};           ///< one NVLink, as NV# counts them
  link pcie{2e-6, 0, 0, 1 / 55e9};             ///< between a GPU and its PCIe switch
  link between_sockets{2e-6, 0, 0, 1 / 30e9};  ///< between PCIe switches
  int most_nvlinks = 18;                       ///< NVLinks of one GPU
};

/// The GPUs in the output of `nvidia-smi topo -m`, as ranks. NV# links two GPUs directly; if all pairs have the same
/// number and a GPU would need more than `most_nvlinks`, there is an NVSwitch, to which each GPU has # links. GPUs with
/// PIX, PXB, PHB or NODE between them share a PCIe switch; these switches are joined.
/// Errors  std::invalid_argument: a text without such a matrix.
inline graph graph_of_nvidia_smi(const std::string& text, const gpu_links& links = {}) {
  const auto of = detail::simulate::matrix_of(text);
  const int p = int(of.size());
  const auto word = [&](int a, int b) -> const std::string& { return of[std::size_t(a)][std::size_t(b)]; };
  const auto nvlinks = [&](int a, int b) { return word(a, b).starts_with("NV") ? std::stoi(word(a, b).substr(2)) : 0; };
  const auto wide = [&](int n) {
    link l = links.nvlink;
    l.seconds_per_byte /= n;
    return l;
  };
  std::vector<int> socket_of(static_cast<std::size_t>(p));  // at first each has its own
  std::iota(socket_of.begin(), socket_of.end(), 0);
  bool is_even = p > 1;
  for (int a = 0; a < p; ++a)
    for (int b = 0; b < p; ++b) {
      is_even &= a == b || nvlinks(a, b) == nvlinks(0, 1);
      const int mine = socket_of[std::size_t(a)], theirs = socket_of[std::size_t(b)];
      if (a != b && word(a, b) != "SYS" && nvlinks(a, b) == 0)
        std::replace(socket_of.begin(), socket_of.end(), std::max(mine, theirs), std::min(mine, theirs));
    }
  const int same = p > 1 ? nvlinks(0, 1) : 0;
  if (is_even && same > 0 && same * (p - 1) > links.most_nvlinks) return graph::star(p, wide(same));
  graph g = detail::simulate::graph_of_groups(socket_of, links.pcie, links.between_sockets, false);
  for (int a = 0; a < p; ++a)
    for (int b = 0; b < p; ++b)
      if (a != b && nvlinks(a, b) > 0) g.link_one_way(a, b, wide(nvlinks(a, b)));
  return g;
}

/// This host's processors as the kernel lists them, one rank each: those that share a level-3 cache are joined by
/// `inside`, and the caches by `outside`. `sys`: the directory of the kernel's files.
/// Errors  std::invalid_argument: the directory lists no processor.
inline graph graph_of_this_host(const link& inside, const link& outside,
                                const std::string& sys = "/sys/devices/system/cpu") {
  const auto first_line = [](const std::string& path) {
    std::ifstream file{path};
    std::string line;
    std::getline(file, line);
    return line;
  };
  std::map<std::string, int> caches;
  std::vector<int> cache_of;
  for (const int cpu : detail::simulate::numbers_in(first_line(sys + "/online"))) {
    const std::string shared = first_line(sys + "/cpu" + std::to_string(cpu) + "/cache/index3/shared_cpu_list");
    cache_of.push_back(caches.try_emplace(shared, int(caches.size())).first->second);
  }
  if (cache_of.empty()) throw std::invalid_argument("kolo: " + sys + " lists no processor");
  return detail::simulate::graph_of_groups(cache_of, inside, outside, false);
}

}  // namespace simulate

}  // namespace kolo::inline KOLO_ABI
