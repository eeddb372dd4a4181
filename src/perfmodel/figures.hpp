// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Published figures of Ulysses and BASP (arXiv:2609.03151), and the machine that explains them best.
#pragma once

#include "perfmodel/predict.hpp"

#include <optional>
#include <string>
#include <vector>

namespace minisp::perfmodel {

/// One row of the table: fig,model,N,B,S,metric,ulysses,basp,note.
struct FigureRow {
  std::string figure, model, metric, note;
  Index ranks = 0;
  Index batch = 0, length = 0;            ///< 0: not stated
  std::optional<double> ulysses, basp{};  ///< as stated
  std::string where;                      ///< "FILE:LINE"
};

/// Throws Error (bad_input) with file and line for a wrong header, number or count of columns. Rows whose
/// values are no numbers are kept without values.
std::vector<FigureRow> parse_figures(const std::string& text, const std::string& file);

/// What the model makes of a row.
struct FigureResidual {
  FigureRow row;
  std::optional<double> ulysses, basp{};  ///< of the model, where the row states one
  bool reproduced = false;
  std::string reason;  ///< why not, or why it is left out
};

struct FigureFit {
  Machine machine;
  std::vector<FigureResidual> rows;
  double error = 0;  ///< root of the mean square of (model - paper) / tolerance
};

/// Fits the free constants (both tiers' latency and bandwidth, skew, and the gathers' share and rate) of
/// `start` to the rows of `figures` ("8"; empty: all). Decks are the paper's: presets of its Table II, bf16,
/// ZeRO-3; where a row leaves B or S open, those of figure 7. Throws Error (bad_input) where no row is left.
FigureFit fit_figures(const std::vector<FigureRow>& rows, const std::vector<std::string>& figures,
                      const Machine& start);

/// The rows as a table, each that is not reproduced with the reason; then pairs of rows that come out in
/// another order than the paper's.
std::vector<std::string> fit_text(const FigureFit& fit);

}  // namespace minisp::perfmodel
