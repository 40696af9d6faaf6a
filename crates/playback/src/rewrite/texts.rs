//! Ids within texts: rewritten if the evidence is sufficient, otherwise reported.

use seatrial_sqltext::reading::{StatementEffects, ValuePosition};

use super::binder::{Binder, BoundUse, IdBindings, IdOutcome};
use crate::ids::infer::Level;
use crate::ids::mentions::{Mention, find};
use crate::ids::plan::value_text;
use crate::ids::spots::{IdOrigin, SpotVerdict, Text, spot_key, texts_of};
use crate::ids::values::Kind;
use crate::item::Item;

/// Numbers and UUIDs within texts that may be ids, without sufficient evidence.
const TEXT: &str = "text";

impl Binder {
    /// Binds ids within the texts of a statement; returns the positions of these texts.
    pub(super) fn bind_texts(
        &mut self,
        item: &Item,
        reading: &StatementEffects,
        bindings: &mut IdBindings,
    ) -> Vec<ValuePosition> {
        if self.plan.draws.iter().all(|&draws| draws == 0) {
            return Vec::new();
        }
        let value_counts = (self.parts.literals().len(), item.parameters.len());
        let (parts, classes) = (&self.parts, &self.plan.classes);
        let at = |position| value_text(position, &item.sql, parts, &item.parameters);
        let mut texts: Vec<Text<'_>> = Vec::new();
        texts_of(reading, classes, item.fingerprint, value_counts, at, |text| texts.push(text));
        let mut mentions = std::mem::take(&mut self.mentions);
        for text in &texts {
            let is_whole = find(text.bytes, &mut mentions);
            for mention in &mentions {
                self.bind_mention(item, text, mention, bindings);
            }
            if !is_whole {
                self.not_followed(TEXT);
            }
        }
        self.mentions = mentions;
        bindings.uses.sort_by_key(|one| (one.parameter, one.range.start));
        texts.into_iter().map(|text| text.position).collect()
    }

    fn bind_mention(
        &mut self,
        item: &Item,
        text: &Text<'_>,
        mention: &Mention,
        bindings: &mut IdBindings,
    ) {
        let value = &text.bytes[mention.range.clone()];
        let spot = match mention.kind {
            Kind::Number => self.plan.spots.get(&spot_key(text, mention)).copied(),
            // Two that are equal are the same.
            Kind::Uuid | Kind::Text => {
                self.class_of_uuid(item, mention, value).map(SpotVerdict::Trusted)
            }
        };
        match spot.unwrap_or_default() {
            SpotVerdict::Refuted => {}
            SpotVerdict::Trusted(class) => match self.outcome(item.number, class, value) {
                Some(IdOutcome::Slot(slot, level)) => {
                    let level = if mention.kind == Kind::Uuid { level } else { Level::ByPattern };
                    self.counts.classes[class as usize].add(level);
                    bindings.uses.push(self.bound_use(slot, class, level, text.position, mention));
                }
                Some(IdOutcome::Unknown(reason, candidates))
                    if self.plan.origin_of(class, mention.id) == IdOrigin::MaybeDrawn =>
                {
                    let levels = &mut self.counts.classes[class as usize];
                    *levels.unresolved.entry(reason).or_default() += 1;
                    self.counts.doubtful_uses += 1;
                    self.note_mention(item, class, text, reason, candidates);
                }
                Some(IdOutcome::NotGenerated) => {
                    self.counts.classes[class as usize].not_generated += 1;
                }
                _ => {}
            },
            SpotVerdict::Open if mention.is_joined => {}
            SpotVerdict::Suspected | SpotVerdict::Open => {
                if let Some(class) = self.class_that_may_hold(mention) {
                    self.not_followed(TEXT);
                    self.note_mention(item, class, text, TEXT, 0);
                }
            }
        }
    }

    fn bound_use(
        &self,
        slot: u32,
        class: u32,
        level: Level,
        position: ValuePosition,
        mention: &Mention,
    ) -> BoundUse {
        let (parameter, offset) = match position {
            ValuePosition::Parameter(parameter) => (Some(parameter), 0),
            ValuePosition::Literal(literal) => {
                let range = self.parts.literals().nth(literal as usize);
                (None, range.map_or(0, |range| range.start))
            }
        };
        let range = offset + mention.range.start..offset + mention.range.end;
        BoundUse { slot, class, level, parameter, range, is_literal: false, is_mention: true }
    }

    fn note_mention(
        &mut self,
        item: &Item,
        class: u32,
        text: &Text<'_>,
        reason: &'static str,
        candidates: u32,
    ) {
        let column = self.plan.classes.all[class as usize].name.clone();
        self.note_example(item, reason, column, text.bytes, candidates);
    }

    /// The class whose draw generated a UUID before a statement.
    fn class_of_uuid(&self, item: &Item, mention: &Mention, value: &[u8]) -> Option<u32> {
        self.classes(mention.kind).find(|&class| {
            matches!(self.outcome(item.number, class, value), Some(IdOutcome::Slot(..)))
        })
    }

    fn class_that_may_hold(&self, mention: &Mention) -> Option<u32> {
        self.classes(mention.kind)
            .find(|&class| self.plan.origin_of(class, mention.id) == IdOrigin::MaybeDrawn)
    }

    fn classes(&self, kind: Kind) -> impl Iterator<Item = u32> + '_ {
        let all = (0..).zip(&self.plan.classes.all);
        all.filter(move |(_, class)| class.kind == kind).map(|(class, _)| class)
    }
}
