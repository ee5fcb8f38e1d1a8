//! The results the authors of FGD published with their code (Weng et al., USENIX ATC '23): one
//! curve a row, a value at every 1 % of arrived GPU demand.

use super::table::Table;
use super::{Text, TraceError};

/// Points a curve may have: 0, 1 .. 130 % of capacity.
pub const POINTS: usize = 131;

/// One run of one scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The pod list, such as `openb_pod_list_default`.
    pub workload: String,
    /// The scheduler, such as `06-FGD`.
    pub policy: String,
    /// The seed of its arrival order.
    pub seed: u64,
    /// The value at 0, 1 .. 130 % arrived, in %; none where the file has none.
    pub percent: Vec<Option<f64>>,
}

/// All curves of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves(pub Vec<Curve>);

/// Mean and sample standard deviation over several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// With n - 1; 0 for one run.
    pub sd: f64,
}

impl Spread {
    /// Of `values`; none where there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let square: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        (!values.is_empty()).then_some(Self {
            mean,
            sd: (square / (n - 1.0).max(1.0)).sqrt(),
        })
    }
}

impl Curves {
    /// Reads `analysis_*_discrete.csv`: columns workload, sc_policy, seed and 0 .. 130, any order.
    pub fn read(text: &Text) -> Result<Self, TraceError> {
        let table = Table::open(text)?;
        let workload = table.column("workload")?;
        let policy = table.column("sc_policy")?;
        let seed = table.column("seed")?;
        let points: Vec<_> = (0..POINTS)
            .map(|percent| table.optional(&percent.to_string()))
            .collect();
        if points.iter().all(Option::is_none) {
            return Err(table.missing("0, 1 .. or 130"));
        }
        let rows = table.read(|row| {
            let value = |column: &Option<_>| {
                let (Some(column), Some(field)) = (column, row.optional(column.as_ref())) else {
                    return Ok(None);
                };
                match field.parse::<f64>() {
                    Ok(value) if (0.0..=100.0).contains(&value) => Ok(Some(value)),
                    _ => Err(row.wrong(column, "expected a percentage from 0 to 100")),
                }
            };
            Ok(Curve {
                workload: row.name(&workload)?.to_owned(),
                policy: row.name(&policy)?.to_owned(),
                seed: row.whole(&seed, u64::MAX)?,
                percent: points.iter().map(value).collect::<Result<_, _>>()?,
            })
        })?;
        Ok(Self(rows))
    }

    /// One scheduler's runs on one list; `policy` as in the file, with or without its `06-`.
    pub fn runs<'c>(
        &'c self,
        workload: &'c str,
        policy: &'c str,
    ) -> impl Iterator<Item = &'c Curve> {
        self.0.iter().filter(move |curve| {
            let short = curve.policy.split_once('-').map_or("", |(_, name)| name);
            curve.workload == workload && (curve.policy == policy || short == policy)
        })
    }

    /// Mean and deviation over the runs of one scheduler on one list, at `percent` arrived.
    pub fn spread(&self, workload: &str, policy: &str, percent: usize) -> Option<Spread> {
        let runs = self.runs(workload, policy);
        let values: Vec<f64> = runs.filter_map(|c| *c.percent.get(percent)?).collect();
        Spread::of(&values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CURVES: &str = "workload,sc_policy,tune,seed,total_gpus,1,0\n\
                          w,06-FGD,1.3,42,6212,2.0,1.0\nw,06-FGD,1.3,43,6212,4.0,\n";

    fn read(text: &str) -> Result<Curves, TraceError> {
        Curves::read(&Text::decode("f", text.as_bytes())?)
    }

    #[test]
    fn curves() {
        let curves = read(CURVES).expect("valid");
        let spread = curves.spread("w", "FGD", 1).expect("there");
        assert_eq!((spread.mean, spread.sd), (3.0, 2f64.sqrt()));
        assert_eq!(
            curves.spread("w", "06-FGD", 0),
            Some(Spread { mean: 1.0, sd: 0.0 })
        );
        assert_eq!(curves.spread("w", "FGD", 2), None);
        assert_eq!(curves.spread("w", "BestFit", 1), None);
        for (text, message) in [
            (
                CURVES.replace("4.0", "104"),
                "f:3: 1 is \"104\": expected a percentage from 0 to 100",
            ),
            (
                CURVES.replace("4.0", "NaN"),
                "f:3: 1 is \"NaN\": expected a percentage from 0 to 100",
            ),
            (
                "workload,sc_policy,seed\na,b,1\n".into(),
                "f: no column 0, 1 .. or 130; there is workload, sc_policy, seed: \
                 rename one or map it",
            ),
        ] {
            assert_eq!(read(&text).expect_err(message).to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(at in 0usize..100, with in "[,\"\n0-9.a-]{0,6}") {
            let mut text = CURVES.to_owned();
            text.replace_range(at.min(text.len() - 1)..(at + 2).min(text.len()), &with);
            let _ = read(&text);
        }
    }
}
