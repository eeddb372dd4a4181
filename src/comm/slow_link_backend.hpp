// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Another backend with one slow link: whatever the rank at its end takes part in takes longer on the wire, on
// all ranks that take part. Programs compute the same bits.
#pragma once

#include "comm/backend_decorator.hpp"

namespace minisp::comm {

struct SlowLink {
  int rank = -1;       ///< of the world: the one at the end of the link
  double seconds = 0;  ///< that the link adds to a collective
};

/// A blocking collective ends so much later on every rank. One that was started is over no sooner than so
/// long after this rank started it, so that work in between hides the delay, as it hides a link's.
class SlowLinkBackend : public BackendDecorator<SlowLinkBackend> {
 public:
  /// Collective over `inner`, of which this rank is rank `world_rank` of the world.
  SlowLinkBackend(std::shared_ptr<Backend> inner, const SlowLink& link, int world_rank);
  std::shared_ptr<Backend> split(int color, int key) const override;

 private:
  friend BackendDecorator<SlowLinkBackend>;
  template <class F>
  void pass_on(bool, F&& collective) {
    collective();
    linger();
  }
  template <class Whole, class Begin>
  std::unique_ptr<Pending> pass_on_started(const Whole&, const Begin& begin) {
    return delayed(begin());
  }
  void linger() const;
  std::unique_ptr<Pending> delayed(std::unique_ptr<Pending> pending) const;

  SlowLink link_;
  int world_rank_;
  bool slow_ = false;  // the rank at the end of the link is one of several here
};

}  // namespace minisp::comm
