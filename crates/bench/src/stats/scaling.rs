//! Scaling of performance with cores (Kosak and Lencse 2025, formula 2 and the tables' last lines).

use serde::{Deserialize, Serialize};

use super::error::{Error, check_positive};

/// The performance of a number of cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// The number of cores.
    pub cores: u32,
    /// The performance with this number of cores, in the unit of the measurements: usually the median of the runs, in frames per
    /// second.
    pub performance: f64,
    /// The relative scale-up S(n) = P(n) / P(1) / n, at best 1; `None` if there is no measurement with 1
    /// core.
    pub scale_up: Option<f64>,
    /// P(n) / P(n/2), at best 2; `None` if there is no measurement with n/2 cores.
    pub ratio_to_half: Option<f64>,
}

/// Computes the scaling from measurements of (cores, performance); returns it in ascending order of cores.
///
/// # Errors
/// If there are no measurements, a number of cores is 0 or occurs twice, or a performance is not above 0.
pub fn scaling(measured: &[(u32, f64)]) -> Result<Vec<Scaling>, Error> {
    if measured.is_empty() {
        return Err(Error::Empty);
    }
    let mut ascending = measured.to_vec();
    ascending.sort_by_key(|(cores, _)| *cores);
    for (index, (cores, performance)) in ascending.iter().enumerate() {
        check_positive("a number of cores", f64::from(*cores))?;
        check_positive("a performance", *performance)?;
        if index > 0 && ascending[index - 1].0 == *cores {
            return Err(Error::Twice { what: "number of cores", value: u64::from(*cores) });
        }
    }
    let of = |cores| ascending.iter().find(|(n, _)| *n == cores).map(|(_, performance)| *performance);
    Ok(ascending
        .iter()
        .map(|(cores, performance)| Scaling {
            cores: *cores,
            performance: *performance,
            scale_up: of(1).map(|one| performance / one / f64::from(*cores)),
            ratio_to_half: of(cores / 2).filter(|_| cores % 2 == 0).map(|half| performance / half),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_compared_with_one_and_with_half_as_many() {
        let all = scaling(&[(4, 30.0), (1, 10.0), (2, 16.0), (6, 45.0), (3, 22.5)]).unwrap();
        let cores: Vec<_> = all.iter().map(|s| (s.cores, s.scale_up.unwrap(), s.ratio_to_half)).collect();
        assert_eq!(
            cores,
            [
                (1, 1.0, None),
                (2, 0.8, Some(1.6)),
                (3, 0.75, None),
                (4, 0.75, Some(1.875)),
                (6, 0.75, Some(2.0))
            ]
        );
    }

    #[test]
    fn missing_measurements_give_no_scaling() {
        let all = scaling(&[(2, 16.0), (3, 20.0)]).unwrap();
        assert!(all.iter().all(|s| s.scale_up.is_none() && s.ratio_to_half.is_none()));
    }

    #[test]
    fn invalid_measurements_are_refused() {
        assert_eq!(scaling(&[]), Err(Error::Empty));
        assert_eq!(
            scaling(&[(0, 1.0)]).unwrap_err().to_string().split(':').next(),
            Some("a number of cores is 0")
        );
        assert!(scaling(&[(1, 0.0)]).is_err());
        assert!(scaling(&[(1, f64::NAN)]).is_err());
        let twice = scaling(&[(2, 1.0), (2, 1.0)]).unwrap_err();
        assert_eq!(twice.to_string(), "number of cores 2 is given twice");
    }
}
