package console

import (
	"lockd/internal/locks"
	"lockd/resp"
)

func doctorCommands(*query) [][]string { return [][]string{{"LOCKS", "DOCTOR"}, {"LOCKS", "ADVICE"}} }

// doctorPage is what the doctor's page shows.
type doctorPage struct {
	locks.Diagnosis
	Advice [][]locks.Field // all rows have the columns of the first
}

func doctorView(_ *Console, _ *query, answers []resp.Reply) (any, error) {
	said, err := locks.ParseDoctor(answers[0])
	if err != nil {
		return nil, err
	}
	advice, err := locks.ParseAdvice(answers[1])
	said.Findings = said.Findings[:min(len(said.Findings), findingsShown)]
	return doctorPage{said, advice[:min(len(advice), findingsShown)]}, err
}
