// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Python module kolo_c10d: after its import, init_process_group("kolo") creates process groups over kolo.
// With KOLO_C10D_OVER_MPI their ranks are those of an MPI job and may be on several hosts, with shared memory within each host.
#include <kolo/adapt/c10d.hpp>

#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#ifdef KOLO_C10D_OVER_MPI
#include <kolo/mpi/mpi.hpp>
#endif

namespace {

#ifdef KOLO_C10D_OVER_MPI
using communicator = kolo::mpi::routed_communicator;

struct of_mpi {
  MPI_Comm comm = MPI_COMM_NULL;
  ~of_mpi() {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
};

/// Collective over the ranks of the group only, which exchange their ranks in MPI_COMM_WORLD through the store.
communicator meet(::c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout) {
  int none = 0, mine = 0;
  char** nothing = nullptr;
  static const kolo::mpi::environment begun{none, nothing, MPI_THREAD_MULTIPLE};
  MPI_Comm_rank(MPI_COMM_WORLD, &mine);
  kolo::c10d::write(store, "kolo/mpi/" + std::to_string(rank), std::to_string(mine));
  std::vector<int> members;
  for (int r = 0; r < size; ++r) members.push_back(std::stoi(kolo::c10d::read(store, "kolo/mpi/" + std::to_string(r))));
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  of_mpi of_group;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, size, members.data(), &some);
  MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &of_group.comm);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  return communicator{of_group.comm, kolo::mpi::options{.timeout = timeout}};  // duplicates of_group.comm
}
#else
using communicator = kolo::shm::communicator;
using kolo::c10d::meet;
#endif

using group = kolo::c10d::process_group<communicator>;

/// A holder that releases the GIL for the destruction of a group, which waits for calls that may need Python.
template <class T>
class without_python {
 public:
  without_python() = default;
  explicit without_python(T* held) : held_{c10::intrusive_ptr<T>::unsafe_steal_from_new(held)} {}
  without_python(c10::intrusive_ptr<T> held) : held_{std::move(held)} {}
  without_python(const without_python&) = default;
  without_python(without_python&&) = default;
  without_python& operator=(const without_python&) = default;
  without_python& operator=(without_python&&) = default;
  ~without_python() {
    if (!held_ || !PyGILState_Check()) return;
    const pybind11::gil_scoped_release others_run;
    held_.reset();
  }
  T* get() const { return held_.get(); }

 private:
  c10::intrusive_ptr<T> held_;
};

without_python<group> make(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                           std::chrono::milliseconds timeout, std::string name) {
  const pybind11::gil_scoped_release others_run;  // the store may be implemented in Python
  auto all = meet(*store, rank, size, timeout);
  return c10::make_intrusive<group>(std::move(all), store, timeout, std::move(name));
}

}  // namespace

PYBIND11_DECLARE_HOLDER_TYPE(T, without_python<T>, true);

PYBIND11_MODULE(kolo_c10d, m) {
  pybind11::module::import("torch.distributed");  // defines the base classes
  pybind11::class_<group, ::c10d::ProcessGroup, without_python<group>>(m, "ProcessGroupKolo");
  using pybind11::literals::operator""_a;
  m.def("make", &make, "store"_a, "rank"_a, "size"_a, "timeout"_a, "name"_a = "kolo");
  pybind11::module::import("torch.distributed").attr("Backend").attr("register_backend")("kolo", m.attr("make"));
}
