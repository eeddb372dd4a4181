// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Files that nobody writes by accident: each of these once ended the program, or in a message of a megabyte.
#include "config/deck.hpp"
#include "config/foreign_text.hpp"
#include "config/hugging_face.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <sstream>
#include <unistd.h>

using namespace minisp::config;
using minisp::test::error_of;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

namespace {

std::string nested(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') +
         std::string(static_cast<std::size_t>(levels), ']');
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

/// The parts one behind the other. (GCC 12 warns falsely of operator+ with a string of unknown size behind.)
std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += part;
  return text;
}

std::string deck_fault(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return error_of([&] { parse_config(text, "deck.toml", overrides); });
}

std::string config_fault(const std::string& text) {
  const auto file =
      std::filesystem::temp_directory_path() / ("minisp-foreign-" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << text;
  const std::string message = error_of([&] { read_hugging_face_config(file.string()); });
  std::filesystem::remove(file);
  return message;
}

}  // namespace

TEST(ForeignText, ValuesAreShownInPart) {
  EXPECT_EQ(shown(json::parse(R"({"a": [1, 2.5, null, "x\"y"], "b": {}})")),
            R"({"a": [1, 2.5, null, "x\"y"], "b": {}})");
  EXPECT_EQ(shown(json::parse(nested(5))), "[[[[[]]]]]");
  EXPECT_EQ(shown(json::parse(nested(6))), "[[[[[...]]]]]");
  EXPECT_EQ(shown(json::parse(nested(200000))), "[[[[[...]]]]]");
  EXPECT_THAT(shown(json(std::string(1000000, 'x'))), AllOf(StartsWith("\"xxx"), SizeIs(testing::Lt(300))));
  EXPECT_THAT(shown(json(std::vector<int>(100000, 7))), AllOf(StartsWith("[7, 7"), SizeIs(testing::Lt(300))));
  EXPECT_THAT(shown(json({{std::string(1000000, 'k'), 1}})), SizeIs(testing::Lt(300)));
  EXPECT_EQ(shortened("short"), "short");
  // No character is cut in two.
  EXPECT_EQ(shortened(repeated("\u20ac", 100)), joined({repeated("\u20ac", 66), "..."}));
}

TEST(ForeignText, FilesThatDoNotEndAreNotRead) {
  std::istringstream text("12345");
  EXPECT_EQ(read_up_to(text, 5, "f", "r"), "12345");
  std::istringstream longer("123456");
  EXPECT_THAT(error_of([&] { read_up_to(longer, 5, "f", "r"); }), HasSubstr("more than 5 bytes"));
  EXPECT_THAT(error_of([] { load_config("/dev/zero", {}); }),
              HasSubstr("/dev/zero: has more than 65536 bytes"));
  EXPECT_THAT(error_of([] { read_hugging_face_config("/dev/zero"); }), HasSubstr("/dev/zero: has more than"));
}

TEST(ForeignText, DecksAreNotNestedWithoutEnd) {
  EXPECT_THAT(deck_fault(joined({repeated("a.", 20000), "a = 1\n"})), HasSubstr("deck.toml: has more than"));
  EXPECT_THAT(deck_fault(joined({"[", repeated("a.", 8000), "a]\n"})), HasSubstr("dots"));
  EXPECT_THAT(deck_fault(joined({"[", repeated("a.", 1999), "a]\n"})), HasSubstr("no table of a deck"));
  EXPECT_THAT(deck_fault(joined({"a = ", nested(10000)})), HasSubstr("deck.toml:1"));
  EXPECT_THAT(deck_fault(std::string(70000, '#')), HasSubstr("more than 65536 bytes"));
  EXPECT_THAT(deck_fault("model.preset = 'gpt2'", {joined({"train.steps={", repeated("a.", 20000), "a=1}"})}),
              HasSubstr("train.steps: the value is"));
}

// The effective deck of a run would be none.
TEST(ForeignText, OverridesAreUtf8) {
  EXPECT_THAT(deck_fault("model.preset = 'gpt2'", {"data.file=a\xff"
                                                   "b"}),
              HasSubstr("command line: data.file: the value is no UTF-8"));
  const std::string odd = "\u20ac \"\\\t\x7f\n\xc2\x85";
  EXPECT_EQ(parse_config("model.preset = 'gpt2'", "d", {"data.file=" + odd}).data.file, odd);
}

TEST(ForeignText, ConfigurationsAreNotShownInFull) {
  const std::string deep = nested(100000);
  EXPECT_THAT(config_fault(joined({"{\"model_type\": ", deep, "}"})),
              HasSubstr("model_type: the value is [[[[[...]]]]]"));
  EXPECT_THAT(config_fault(joined({"{\"model_type\": \"llama\", \"rope_scaling\": ", deep, "}"})),
              HasSubstr("a table"));
  EXPECT_THAT(config_fault(joined({"{\"model_type\": \"llama\", \"quantization_config\": ", deep, "}"})),
              HasSubstr("[[[[[...]]]]] is not supported"));
  EXPECT_THAT(config_fault(deep), HasSubstr("no table"));
  const std::string wide(1000000, 'x');
  EXPECT_THAT(config_fault(joined({"{\"model_type\": \"", wide, "\"}"})), SizeIs(testing::Lt(2000)));
  EXPECT_THAT(config_fault(joined({"{\"model_type\": \"", wide})), SizeIs(testing::Lt(2000)));
}
