// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parameters of ResNet-50 for ImageNet: the number of elements of each tensor, and the work of its layer.
#pragma once

#include <cstddef>
#include <vector>

namespace scaling {

struct tensor {
  std::size_t elements = 0;
  double work =
      0;  ///< multiplications of the layer's forward pass for one image; those of normalisation and biases are 0
};

namespace detail {

class resnet50_builder {
 public:
  /// A convolution without a bias, and the scale and shift of the normalisation after it. `side`: of its square output.
  void convolution(std::size_t kernel, std::size_t in, std::size_t out, std::size_t side) {
    const auto weights = kernel * kernel * in * out;
    tensors.push_back({weights, double(weights) * double(side * side)});
    tensors.push_back({out, 0});
    tensors.push_back({out, 0});
  }
  /// A block with four times as many output channels as in its middle. The first of a stage has a convolution in its shortcut.
  void bottleneck(std::size_t in, std::size_t middle, std::size_t side_before, std::size_t side, bool is_first) {
    convolution(1, in, middle, side_before);
    convolution(3, middle, middle, side);
    convolution(1, middle, 4 * middle, side);
    if (is_first) convolution(1, in, 4 * middle, side);
  }

  std::vector<tensor> tensors{};
};

}  // namespace detail

/// In the order of the forward pass: 161 tensors, 25,557,032 elements, 4.1e9 multiplications.
/// Source  He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016, with the stride in the middle of a block
///         ("v1.5").
inline std::vector<tensor> resnet50() {
  detail::resnet50_builder net;
  net.convolution(7, 3, 64, 112);
  constexpr std::size_t blocks[] = {3, 4, 6, 3};
  std::size_t channels = 64, side = 56;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const auto middle = std::size_t{64} << stage, before = side;
    if (stage > 0) side /= 2;
    for (std::size_t b = 0; b < blocks[stage]; ++b) {
      net.bottleneck(channels, middle, b == 0 ? before : side, side, b == 0);
      channels = 4 * middle;
    }
  }
  net.tensors.push_back({channels * 1000, double(channels * 1000)});
  net.tensors.push_back({1000, 0});
  return net.tensors;
}

}  // namespace scaling
