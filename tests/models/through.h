// Stored weights of which a test changes something.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/program/weight_source.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {

class Through : public WeightSource {
 public:
  explicit Through(const StoredWeights& whole) : whole_(whole) {}
  const std::string& path() const override { return whole_.path(); }
  std::vector<TensorInfo> infos() const override { return whole_.infos(); }
  void read(std::size_t tensor, PackedDevice& device, const PanelBody& body) const override {
    whole_.read(tensor, device, body);
  }
  void write(const std::string& output, const Metadata& metadata,
             std::span<const SafetensorsSource> sources) const override {
    whole_.write(output, metadata, sources);
  }

 private:
  const StoredWeights& whole_;
};

// Adds the files of a folder that came with the weights.
class Kept : public Through {
 public:
  Kept(const StoredWeights& whole, std::string files) : Through(whole), files_(std::move(files)) {}
  PublishedFacts facts() const override { return {.tokens = {}, .classes = {}, .files = files_}; }

 private:
  std::string files_;
};

}  // namespace lpmm
