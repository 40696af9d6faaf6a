//! Casts, and which of them preserve a value.

use sqlparser::ast::{ArrayElemTypeDef, DataType, Expr};

/// A family of types whose equal values are always written alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Whole numbers.
    Whole,
    /// UUIDs.
    Uuid,
    /// Texts.
    Text,
}

impl Family {
    /// The family of a column's type, as the catalogue names it.
    pub fn of(type_name: &str) -> Option<Family> {
        match type_name {
            "smallint" | "integer" | "bigint" => Some(Family::Whole),
            "uuid" => Some(Family::Uuid),
            "text" | "character varying" => Some(Family::Text),
            name if name.starts_with("character varying(") && name.ends_with(')') => {
                Some(Family::Text)
            }
            _ => None,
        }
    }

    /// The family of a type in a statement; None if values may be changed or cut off.
    fn of_type(data_type: &DataType) -> Option<Family> {
        use DataType as T;
        match data_type {
            T::SmallInt(None) | T::Int2(None) | T::Int(None) | T::Int4(None) => Some(Family::Whole),
            T::Integer(None) | T::BigInt(None) | T::Int8(None) => Some(Family::Whole),
            T::Uuid => Some(Family::Uuid),
            T::Text | T::Varchar(None) | T::CharacterVarying(None) => Some(Family::Text),
            _ => None,
        }
    }
}

/// The effect of the casts around a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cast {
    /// No casts.
    #[default]
    None,
    /// A value of this family.
    To(Family),
    /// Anything else: differently written values may be equal.
    Other,
}

impl Cast {
    /// The casts around an expression.
    pub fn of(expr: &Expr) -> Cast {
        match expr {
            Expr::Nested(inner) => Cast::of(inner),
            Expr::Cast { expr, data_type, .. } => Cast::of(expr).to(Family::of_type(data_type)),
            Expr::TypedString(string) => Cast::None.to(Family::of_type(&string.data_type)),
            _ => Cast::None,
        }
    }

    /// The effect of the casts around an array on its elements.
    pub fn of_elements(expr: &Expr) -> Cast {
        match expr {
            Expr::Nested(inner) => Cast::of_elements(inner),
            Expr::Cast { expr, data_type, .. } => {
                let around = match data_type {
                    DataType::Array(ArrayElemTypeDef::SquareBracket(one, _)) => {
                        Family::of_type(one)
                    }
                    _ => None,
                };
                Cast::of_elements(expr).to(around)
            }
            Expr::TypedString(_) => Cast::Other,
            _ => Cast::None,
        }
    }

    /// Adds a further cast.
    fn to(self, family: Option<Family>) -> Cast {
        match (self, family) {
            (Cast::None | Cast::To(Family::Text), Some(family)) => Cast::To(family),
            (Cast::To(own), Some(family)) if own == family => self,
            _ => Cast::Other,
        }
    }

    /// Adds the casts of the enclosing expression.
    pub fn then(self, around: Cast) -> Cast {
        match around {
            Cast::None => self,
            Cast::To(family) => self.to(Some(family)),
            Cast::Other => Cast::Other,
        }
    }

    /// The casts of a value that may be either of two.
    pub fn or(self, other: Cast) -> Cast {
        if self == other { self } else { Cast::Other }
    }

    /// Whether these casts preserve a value of a column of this family.
    pub fn fits(self, family: Option<Family>) -> bool {
        match self {
            Cast::None => family.is_some(),
            Cast::To(own) => family == Some(own),
            Cast::Other => false,
        }
    }
}
