// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/hugging_face.hpp"
#include "io/safetensors.hpp"
#include "support/error_of.hpp"
#include "unit/io/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>

using namespace minisp::io;
using minisp::test::error_of;
using minisp::test::ScratchFolder;
using minisp::test::write_file;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Lt;
using testing::SizeIs;

namespace {

const std::string reference = std::string(MINISP_SOURCE_FOLDER) + "/tests/reference/";

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// Length, header and data one behind the other.
std::string file_content(const std::string& header, const std::string& data) {
  return bytes_of<std::uint64_t>({header.size()}) + header + data;
}

/// The fault of a file with this header and that much data.
std::string fault(const std::string& header, std::size_t data_bytes) {
  const ScratchFolder folder;
  write_file(folder / "x.safetensors", file_content(header, std::string(data_bytes, '\0')));
  return error_of([&] { SafetensorsFile file(folder / "x.safetensors"); });
}

/// Two tensors in one small file: a (2, 3) in F32 and b (2) in F64.
const std::string pair_header =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"F64","shape":[2],"data_offsets":[24,40]}} )";
std::string pair_content() {
  return file_content(pair_header, bytes_of<float>({1, 2, 3, 4, 5, 6}) + bytes_of<double>({0.1, -7}));
}

}  // namespace

// binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits; bfloat16: 1, 8 (bias 127), 7. Exact, so compared
// for equality with the defining formula, all 65536 patterns.
TEST(Safetensors, HalvesConvertExactly) {
  const auto expected = [](unsigned bits, int exponent_bits) {
    const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double fraction =
        std::ldexp(static_cast<double>(bits & ((1u << fraction_bits) - 1)), -fraction_bits);
    const double sign = bits & 0x8000u ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : std::nan("");
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
    return sign * std::ldexp(1 + fraction, exponent - bias);
  };
  const auto same = [](double a, float b) {
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  };
  int half_faults = 0, bfloat_faults = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    half_faults += !same(expected(bits, 5), float_from_half(static_cast<std::uint16_t>(bits)));
    bfloat_faults += !same(expected(bits, 8), float_from_bfloat16(static_cast<std::uint16_t>(bits)));
  }
  EXPECT_EQ(half_faults, 0);
  EXPECT_EQ(bfloat_faults, 0);
  EXPECT_EQ(float_from_half(0x3555), 0.333251953125f);
  EXPECT_EQ(float_from_half(0x0001), 0x1p-24f);
  EXPECT_EQ(float_from_bfloat16(0x3eab), 0.333984375f);
}

TEST(Safetensors, ReferenceWeights) {
  for (const std::string name :
       {"gpt2", "llama-gqa-scaled-rope", "llama-untied-packed", "qwen2-bias", "qwen3-qk-norm"}) {
    const SafetensorsFolder folder(reference + name);
    std::int64_t elements = 0;
    for (const std::string& tensor : folder.names()) elements += folder.info(tensor).elements;
    EXPECT_EQ(elements, minisp::config::read_hugging_face_config(reference + name).architecture.parameters())
        << name;
  }
  // Values as Python's struct module reads them.
  const SafetensorsFolder gpt2(reference + "gpt2");
  EXPECT_EQ(gpt2.names().size(), 28u);
  EXPECT_THAT(gpt2.shape("transformer.h.0.attn.c_attn.weight"), ElementsAre(64, 192));
  const auto values = gpt2.read("transformer.h.0.attn.c_attn.weight");
  ASSERT_EQ(values.size(), 64u * 192u);
  EXPECT_EQ(values.front(), 0.07770367301230127);
  EXPECT_EQ(values.back(), -0.03214848310731422);
}

TEST(Safetensors, ReadsRangesAsEitherType) {
  const SafetensorsFolder folder(reference + "gpt2");
  const std::string name = "transformer.wte.weight";
  const auto all = folder.read(name);
  std::vector<double> part(100);
  folder.read(name, 50, std::span(part));
  std::vector<float> single(100);
  folder.read(name, 50, std::span(single));
  for (std::size_t i = 0; i < part.size(); ++i) {
    EXPECT_EQ(part[i], all[50 + i]);
    EXPECT_EQ(single[i], static_cast<float>(all[50 + i]));
  }
  const auto size = static_cast<std::int64_t>(all.size());
  for (const std::int64_t first :
       {std::int64_t{-1}, size - 99, size + 1, std::numeric_limits<std::int64_t>::max()})
    EXPECT_THAT(error_of([&] { folder.read(name, first, std::span(part)); }), HasSubstr(name));
  EXPECT_THAT(error_of([&] { folder.read("transformer.wtf.weight"); }), HasSubstr("transformer.wtf.weight"));
}

TEST(Safetensors, ReadsEveryType) {
  const ScratchFolder folder;
  // More than one read's worth of bytes, so that the seam between reads is crossed.
  const std::size_t many = 300'000;
  std::vector<double> wide(many);
  for (std::size_t i = 0; i < many; ++i) wide[i] = 1.0 / static_cast<double>(i + 1);
  const std::string header =
      R"({"d":{"dtype":"F64","shape":[300000],"data_offsets":[14,2400014]},)"
      R"("f":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"h":{"dtype":"F16","shape":[1,2],"data_offsets":[4,8]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]},"i":{"dtype":"I64","shape":[],"data_offsets":[2400014,2400022]},)"
      R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[14,14]}})";
  write_file(folder / "model.safetensors",
             file_content(header, bytes_of<float>({0.1f}) + bytes_of<std::uint16_t>({0x3c00, 0xc000}) +
                                      bytes_of<std::uint16_t>({0x3f80, 0xc000, 0x0001}) + bytes_of(wide) +
                                      bytes_of<std::int64_t>({3})));
  const SafetensorsFolder weights(folder.path());
  EXPECT_EQ(weights.read("d"), wide);
  EXPECT_THAT(weights.read("f"), ElementsAre(static_cast<double>(0.1f)));
  EXPECT_THAT(weights.read("h"), ElementsAre(1.0, -2.0));
  EXPECT_THAT(weights.read("b"), ElementsAre(1.0, -2.0, 0x1p-133));
  EXPECT_THAT(weights.read("e"), IsEmpty());
  EXPECT_EQ(weights.info("i").dtype, "I64");
  EXPECT_THAT(error_of([&] { weights.read("i"); }), AllOf(HasSubstr(": i: "), HasSubstr("I64")));
}

TEST(Safetensors, BadHeadersNameFileAndTensor) {
  const auto one = [](const std::string& entry, std::size_t bytes = 8) {
    return fault("{\"t\":" + entry + "}", bytes);
  };
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[1],"data_offsets":[0,4]})"),
              AllOf(HasSubstr("x.safetensors: t: "), HasSubstr("does not take")));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[2],"data_offsets":[0,16]})"), HasSubstr("holds only 8 bytes"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[1],"data_offsets":[0,8]})", 16), HasSubstr("only 8"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[1],"data_offsets":[8,16]})", 16), HasSubstr("begin at 8"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[1],"data_offsets":[8,0]})"), HasSubstr("does not take"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[1],"data_offsets":[-8,0]})"), HasSubstr("-8"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[-1],"data_offsets":[0,8]})"), HasSubstr("-1"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[1.0],"data_offsets":[0,8]})"), HasSubstr("1.0"));
  EXPECT_THAT(one(R"({"dtype":"F65","shape":[1],"data_offsets":[0,8]})"), HasSubstr("F65"));
  EXPECT_THAT(one(R"({"dtype":3,"shape":[1],"data_offsets":[0,8]})"), HasSubstr("type 3"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":8,"data_offsets":[0,8]})"), HasSubstr("shape is no list"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[1],"data_offsets":[0]})"), HasSubstr("no pair"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[1]})"), HasSubstr("lacks"));
  EXPECT_THAT(one("[]"), HasSubstr("lacks"));
  // Products that overflow 64 bits, to something that fits by chance or not.
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
              HasSubstr("2^63"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]})"),
              HasSubstr("does not take"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[1],"data_offsets":[18446744073709551608,0]})"),
              HasSubstr("no size"));
  // Overlap, and one name twice.
  const std::string t = R"({"dtype":"F64","shape":[1],"data_offsets":[0,8]})";
  EXPECT_THAT(fault("{\"t\":" + t + ",\"u\":" + t + "}", 8), HasSubstr("ends at 8"));
  EXPECT_THAT(fault("{\"t\":" + t + ",\"t\":" + t + "}", 8), AllOf(HasSubstr(": t: "), HasSubstr("twice")));
  EXPECT_THAT(fault("[]", 0), HasSubstr("no table"));
  EXPECT_THAT(fault("{", 0), HasSubstr("JSON"));
  EXPECT_THAT(fault("{}", 1), HasSubstr("only 0"));
}

TEST(Safetensors, FilesCutOffAnywhereAreRefused) {
  const ScratchFolder folder;
  const std::string whole = pair_content();
  write_file(folder / "x", whole);
  EXPECT_EQ(SafetensorsFile(folder / "x").tensors().size(), 2u);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(folder / "x", whole.substr(0, length));
    EXPECT_THAT(error_of([&] { SafetensorsFile file(folder / "x"); }), HasSubstr("get it again")) << length;
  }
  write_file(folder / "x", whole + '\0');
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder / "x"); }), HasSubstr("bytes of data"));
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder / "none"); }),
              HasSubstr("none: the file cannot be opened"));
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder.path()); }), HasSubstr("no regular file"));
}

// Any single flipped bit of length or header is refused, or leaves a header that is consistent (another
// name): then every tensor can still be read without leaving the file.
TEST(Safetensors, FlippedBitsNeverReadOutside) {
  const ScratchFolder folder;
  const std::string whole = pair_content();
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * (8 + pair_header.size()); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write_file(folder / "x", flipped);
    try {
      const SafetensorsFile file(folder / "x");
      for (const auto& [name, info] : file.tensors()) {
        ASSERT_LE(info.begin + info.bytes, static_cast<std::int64_t>(whole.size()));
        std::vector<double> values(static_cast<std::size_t>(info.elements));
        if (info.dtype[0] != 'I' && info.dtype[0] != 'U') file.read(name, 0, std::span(values));
      }
    } catch (const minisp::Error& error) {
      EXPECT_EQ(error.code(), minisp::ExitCode::bad_input);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Safetensors, ShardsFollowTheIndex) {
  const ScratchFolder folder;
  const auto shard = [](const std::string& name, double value) {
    return file_content("{\"" + name + R"(":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})",
                        bytes_of<double>({value}));
  };
  const std::string one = "model-00001-of-00002.safetensors", two = "model-00002-of-00002.safetensors";
  const auto index = [&](const std::string& map) {
    write_file(folder / "model.safetensors.index.json",
               R"({"metadata":{"total_size":16},"weight_map":{)" + map + "}}");
  };
  const auto index_fault = [&](const std::string& map) {
    index(map);
    return error_of([&] { SafetensorsFolder weights(folder.path()); });
  };
  EXPECT_THAT(error_of([&] { SafetensorsFolder weights(folder.path()); }), HasSubstr("neither"));
  write_file(folder / one, shard("a", 1));
  write_file(folder / two, shard("b", 2));
  index(R"("a":")" + one + R"(","b":")" + two + "\"");
  const SafetensorsFolder weights(folder.path());
  EXPECT_THAT(weights.names(), ElementsAre("a", "b"));
  EXPECT_THAT(weights.read("a"), ElementsAre(1));
  EXPECT_THAT(weights.read("b"), ElementsAre(2));

  EXPECT_THAT(index_fault(R"("a":")" + one + R"(","b":")" + one + "\""),
              AllOf(HasSubstr(one + ": b: "), HasSubstr("missing")));
  EXPECT_THAT(index_fault(R"("a":")" + one + R"(","b":"none.safetensors")"), HasSubstr("none.safetensors"));
  EXPECT_THAT(index_fault(R"("c":")" + one + "\""), HasSubstr(": c: "));
  write_file(folder / one, file_content(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                                        R"("z":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}})",
                                        std::string(8, '\0')));
  EXPECT_THAT(index_fault(R"("a":")" + one + "\""), AllOf(HasSubstr(": z: "), HasSubstr("does not place")));
  // Names that leave the folder are refused before anything is opened, even if a good file is there.
  for (const std::string& name :
       {"../" + one, "./" + one, folder / one, std::string(".."), std::string(""), std::string("a\\\\b")})
    EXPECT_THAT(index_fault("\"a\":\"" + name + "\""), HasSubstr("no name of a file in this folder")) << name;
  EXPECT_THAT(index_fault(R"("a":3)"), HasSubstr("no name of a file"));
  write_file(folder / "model.safetensors.index.json", "{}");
  EXPECT_THAT(error_of([&] { SafetensorsFolder w(folder.path()); }), HasSubstr("weight_map"));
}

// Each of these once ended the program, or in a message of a megabyte.
TEST(Safetensors, HeadersNestedWithoutEndAndNamesOfAMegabyte) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']'), wide(1000000, 'x');
  EXPECT_THAT(fault(R"({"a":{"dtype":)" + deep + R"(,"shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("the type [[[[[...]]]]] is unknown"));
  EXPECT_THAT(fault(R"({"a":{"dtype":"F32","shape":)" + deep + R"(,"data_offsets":[0,4]}})", 4),
              HasSubstr("holds [[[[[...]]]]], which is no size"));
  EXPECT_THAT(fault("{\"" + wide + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              SizeIs(Lt(1000u)));
  EXPECT_THAT(fault("{\"" + wide, 4), SizeIs(Lt(1000u)));
  const ScratchFolder folder;
  for (const std::string& shard : {deep, "\"" + wide + "\""}) {
    write_file(folder / "model.safetensors.index.json", "{\"weight_map\":{\"x\":" + shard + "}}");
    EXPECT_THAT(error_of([&] { SafetensorsFolder w(folder.path()); }),
                AllOf(HasSubstr("no name of a file"), SizeIs(Lt(1000u))));
  }
}

// A size in the file is held against the file before memory is taken for it.
TEST(Safetensors, SizesBeyondTheFileAreRefused) {
  const ScratchFolder folder;
  write_file(folder / "x.safetensors", bytes_of<std::uint64_t>({99999999}) + "{}");
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder / "x.safetensors"); }),
              HasSubstr("the file holds 2"));
  EXPECT_THAT(
      fault(R"({"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}})",
            4),
      HasSubstr("the file holds only 4"));
}

TEST(Safetensors, NamesAreMatchedWithoutPrefixAndBuffers) {
  const ScratchFolder folder;
  const std::string t = R"({"dtype":"F64","shape":[0],"data_offsets":[0,0]})";
  write_file(folder / "model.safetensors",
             file_content("{\"wte.weight\":" + t + ",\"h.0.attn.bias\":" + t + ",\"odd\":" + t +
                              ",\"lm_head.weight\":" + t + "}",
                          ""));
  const SafetensorsFolder weights(folder.path());
  const NameMatch match = match_names(weights, {"transformer.wte.weight", "transformer.wpe.weight"},
                                      "transformer.", {"lm_head.weight"});
  EXPECT_EQ(match.stored.at("transformer.wte.weight"), "wte.weight");
  EXPECT_THAT(match.missing, ElementsAre("transformer.wpe.weight"));
  EXPECT_THAT(match.extra, ElementsAre("odd"));
  EXPECT_THAT(error_of([&] { require_complete(match, "folder"); }),
              AllOf(HasSubstr("missing: transformer.wpe.weight"), HasSubstr("no place for: odd")));
  EXPECT_NO_THROW(require_complete({}, "folder"));
}
