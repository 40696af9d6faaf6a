//! Casts: which of them leave a value what it is.

use sqlparser::ast::{ArrayElemTypeDef, DataType, Expr};

/// What values are of which two are the same only if they are written alike.
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
    /// That of a column's type, as the catalogue names it.
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

    /// That of a type in a statement; None where values of it are others, or may be cut off.
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

/// What a value was made by the casts around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cast {
    /// There are none.
    #[default]
    None,
    /// One of these, of whatever it was written as.
    To(Family),
    /// Anything else: a value that is written otherwise may be the same.
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

    /// What an array's elements were made by the casts around it.
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

    /// With a further one behind these.
    fn to(self, family: Option<Family>) -> Cast {
        match (self, family) {
            (Cast::None | Cast::To(Family::Text), Some(family)) => Cast::To(family),
            (Cast::To(own), Some(family)) if own == family => self,
            _ => Cast::Other,
        }
    }

    /// With those of what is around behind these.
    pub fn then(self, around: Cast) -> Cast {
        match around {
            Cast::None => self,
            Cast::To(family) => self.to(Some(family)),
            Cast::Other => Cast::Other,
        }
    }

    /// Of two values that may be either.
    pub fn or(self, other: Cast) -> Cast {
        if self == other { self } else { Cast::Other }
    }

    /// Whether a value behind these is, as one of a column of this family, what is written there.
    pub fn fits(self, family: Option<Family>) -> bool {
        match self {
            Cast::None => family.is_some(),
            Cast::To(own) => family == Some(own),
            Cast::Other => false,
        }
    }
}
