#include "daemon/notify/policy.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/notify/delivery.h"

namespace foreshock::notify {

const RunEnd* Moment::RunEndOf(const v1::Alert& alert) const {
  const auto end = run_ends->find(alert.run());
  return end == run_ends->end() ? nullptr : &end->second;
}

bool Moment::IsOver(const model::AlertRow& row) const {
  return foreshock::notify::IsOver(row, RunEndOf(row.alert()), now);
}

namespace {

Situation SituationOf(const TrackedAlert& alert, const std::string& notifier,
                      const Moment& moment) {
  return {.row = alert.row.get(),
          .delivery = FindDelivery(*alert.row, notifier),
          .run_end = moment.RunEndOf(alert.row->alert()),
          .now = moment.now,
          .gate = [&moment, &alert] { return moment.gate(alert.row->alert()); },
          .given_up = alert.given_up,
          .end_given_up = alert.end_given_up,
          .shown = alert.shown};
}

model::Delivery DeliveryOf(const TrackedAlert& alert, const std::string& notifier) {
  const model::Delivery* const known = FindDelivery(*alert.row, notifier);
  model::Delivery delivery = known == nullptr ? model::Delivery() : *known;
  delivery.set_notifier(notifier);
  return delivery;
}

// Names a message by one of its alerts. The name stays while the alert goes on, and is another one
// after its end was told.
std::string GroupName(const TrackedAlert& alert, const std::string& notifier) {
  const v1::Alert& of = alert.row->alert();
  std::string name = absl::StrCat(of.id(), "/", SeverityName(SeverityOf(of)));
  const model::Delivery delivery = DeliveryOf(alert, notifier);
  const auto over = std::count_if(delivery.told().begin(), delivery.told().end(),
                                  [](const auto& told) { return told.over(); });
  if (over > 0) absl::StrAppend(&name, "/", over + 1);
  return name;
}

bool MoreSevere(const TrackedAlert* a, const TrackedAlert* b) {
  const auto key = [](const model::AlertRow& row) {
    return std::tuple(-static_cast<int>(SeverityOf(row.alert())), row.fired_unix_ns(),
                      row.alert().id());
  };
  return key(*a->row) < key(*b->row);
}

// ---- News.

class News final : public Policy {
 public:
  explicit News(NewsOptions options) : options_(std::move(options)) {}

  Decision Decide(const TrackedAlert& alert, const Moment& moment) const override {
    return DecideNews(SituationOf(alert, options_.notifier, moment));
  }
  Plan Due(TrackedAlerts* alerts, const Moment& moment) const override;
  model::Delivery AfterTaken(const Outgoing& message, const TrackedAlert& alert,
                             const Moment& moment) const override;

 private:
  using Groups = std::map<std::string, std::vector<TrackedAlert*>>;

  void PlanFiring(Groups groups, const Moment& moment, Plan* plan) const;
  void PlanEnds(TrackedAlerts* alerts, const std::vector<TrackedAlert*>& over, const Moment& moment,
                Plan* plan) const;
  // The messages that name the alert and whose end is to be told.
  std::vector<std::string> GroupsOf(const TrackedAlert& alert) const;

  const NewsOptions options_;
};

Plan News::Due(TrackedAlerts* alerts, const Moment& moment) const {
  Plan plan;
  Groups firing;  // by run, or by alert
  std::vector<TrackedAlert*> over;
  std::vector<TrackedAlert*> taken_on;
  for (auto& [id, alert] : *alerts) {
    switch (Decide(alert, moment).tell) {
      case Tell::kNothing:
        alert.waits_since = absl::InfiniteFuture();
        break;
      case Tell::kFiring: {
        const bool alone = options_.group_wait <= absl::ZeroDuration();
        firing[alone ? id : alert.row->alert().run()].push_back(&alert);
        break;
      }
      case Tell::kAcknowledged:
        taken_on.push_back(&alert);
        break;
      case Tell::kResolved:
        over.push_back(&alert);
        break;
    }
  }
  PlanFiring(std::move(firing), moment, &plan);
  for (TrackedAlert* alert : taken_on) {
    const model::Delivery delivery = DeliveryOf(*alert, options_.notifier);
    plan.messages.push_back(
        {MessageKind::kAcknowledged, delivery.told(delivery.told_size() - 1).group(), {alert}});
  }
  PlanEnds(alerts, over, moment, &plan);
  for (const Outgoing& message : plan.messages) {
    for (TrackedAlert* alert : message.alerts) {
      alert->waits_since = std::min(alert->waits_since, moment.steady);
    }
  }
  return plan;
}

void News::PlanFiring(Groups groups, const Moment& moment, Plan* plan) const {
  std::vector<std::vector<TrackedAlert*>> ready;
  bool held_back = false;
  for (auto& [name, alerts] : groups) {
    absl::Time since = moment.steady;
    for (TrackedAlert* alert : alerts) {
      alert->waits_since = std::min(alert->waits_since, moment.steady);
      since = std::min(since, alert->waits_since);
      held_back = held_back || alert->held_back;
    }
    if (moment.last || moment.steady >= since + options_.group_wait) {
      ready.push_back(std::move(alerts));
    } else {
      plan->next = std::min(plan->next, since + options_.group_wait);
    }
  }
  if (held_back) {  // what the limit held back goes as one message, whatever its runs
    std::vector<TrackedAlert*> all;
    for (const auto& alerts : ready) all.insert(all.end(), alerts.begin(), alerts.end());
    ready.assign(all.empty() ? 0 : 1, all);
  }
  for (std::vector<TrackedAlert*>& alerts : ready) {
    std::sort(alerts.begin(), alerts.end(), MoreSevere);
    std::string name = GroupName(*alerts.front(), options_.notifier);
    plan->messages.push_back({MessageKind::kFiring, std::move(name), std::move(alerts)});
  }
}

std::vector<std::string> News::GroupsOf(const TrackedAlert& alert) const {
  std::vector<std::string> groups;
  const model::Delivery* const delivery = FindDelivery(*alert.row, options_.notifier);
  if (!WasTold(delivery)) return groups;
  for (int i = options_.end_every_group ? 0 : delivery->told_size() - 1; i < delivery->told_size();
       ++i) {
    if (!delivery->told(i).over()) groups.push_back(delivery->told(i).group());
  }
  return groups;
}

// The end of a message is told when all of its alerts are over.
void News::PlanEnds(TrackedAlerts* alerts, const std::vector<TrackedAlert*>& over,
                    const Moment& moment, Plan* plan) const {
  Groups ends;
  for (TrackedAlert* alert : over) {
    for (const std::string& group : GroupsOf(*alert)) ends[group].push_back(alert);
  }
  if (ends.empty()) return;
  for (const auto& [id, alert] : *alerts) {
    if (moment.IsOver(*alert.row)) continue;
    for (const std::string& group : GroupsOf(alert)) ends.erase(group);
  }
  for (auto& [group, ended] : ends) {
    plan->messages.push_back({MessageKind::kResolved, group, std::move(ended)});
  }
}

model::Delivery News::AfterTaken(const Outgoing& message, const TrackedAlert& alert,
                                 const Moment& moment) const {
  model::Delivery delivery = DeliveryOf(alert, options_.notifier);
  const v1::Alert& of = alert.row->alert();
  switch (message.kind) {
    case MessageKind::kFiring:
      AddTold(of, message.group, moment.now, &delivery);
      break;
    case MessageKind::kAcknowledged:
      delivery.set_acknowledged(true);
      break;
    case MessageKind::kResolved:
      if (options_.end_every_group) {
        EndTold(of, message.group, &delivery);
      } else {
        EndAllTold(of, &delivery);
      }
      break;
  }
  return delivery;
}

// ---- State.

constexpr size_t kStateAlertsMax = 256;  // of one message

class State final : public Policy {
 public:
  explicit State(StateOptions options) : options_(std::move(options)) {}

  Decision Decide(const TrackedAlert& alert, const Moment& moment) const override {
    return DecideState(SituationOf(alert, options_.notifier, moment));
  }
  Plan Due(TrackedAlerts* alerts, const Moment& moment) const override;
  model::Delivery AfterTaken(const Outgoing& message, const TrackedAlert& alert,
                             const Moment& moment) const override;

 private:
  const StateOptions options_;
};

Plan State::Due(TrackedAlerts* alerts, const Moment& moment) const {
  Plan plan;
  std::vector<TrackedAlert*> shown;
  bool due = false;
  for (auto& [id, alert] : *alerts) {
    const absl::Time waits_since = std::exchange(alert.waits_since, absl::InfiniteFuture());
    const Decision decision = Decide(alert, moment);
    if (decision.tell == Tell::kNothing) continue;
    const absl::Time again = alert.sent_at + options_.resend;
    if (decision.why != Why::kShownAgain) {
      alert.waits_since = std::min(waits_since, moment.steady);
      due = true;
    } else if (moment.steady >= again) {
      due = true;
    } else {
      plan.next = std::min(plan.next, again);
      // What is nearly due comes along, so that all alerts keep one beat.
      if (moment.steady < alert.sent_at + options_.resend / 2) continue;
    }
    shown.push_back(&alert);
  }
  if (!due) return plan;
  for (size_t begin = 0; begin < shown.size(); begin += kStateAlertsMax) {
    const size_t end = std::min(shown.size(), begin + kStateAlertsMax);
    plan.messages.push_back({MessageKind::kFiring,
                             GroupName(*shown[begin], options_.notifier),
                             {shown.begin() + static_cast<ptrdiff_t>(begin),
                              shown.begin() + static_cast<ptrdiff_t>(end)}});
  }
  return plan;
}

model::Delivery State::AfterTaken(const Outgoing& message, const TrackedAlert& alert,
                                  const Moment& moment) const {
  model::Delivery delivery = DeliveryOf(alert, options_.notifier);
  const v1::Alert& of = alert.row->alert();
  if (moment.IsOver(*alert.row)) {
    EndAllTold(of, &delivery);
  } else {
    AddTold(of, message.group, moment.now, &delivery);
  }
  return delivery;
}

}  // namespace

std::unique_ptr<Policy> NewsPolicy(NewsOptions options) {
  return std::make_unique<News>(std::move(options));
}

std::unique_ptr<Policy> StatePolicy(StateOptions options) {
  return std::make_unique<State>(std::move(options));
}

}  // namespace foreshock::notify
