package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"

	"github.com/carillon-jobs/carillon/client"
)

// answered lists the fields of a job, and of its schedule, that are not part of a request.
var answered = [2][]string{
	{"job_id", "execution_id", "key", "status", "stats", "created_at", "updated_at", "revision", "pause_reason", "paused_until", "dropped_credentials"},
	{"next_run_at", "last_run_at"},
}

// decodeFields reads an object with its numbers as they are written.
func decodeFields(data []byte) (out fields, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&out)
	return out, err
}

// editable is the part of a job that can be changed.
func editable(j client.Job) (fields, error) {
	data, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	all, err := decodeFields(data)
	if err != nil {
		return nil, err
	}
	for _, name := range answered[0] {
		delete(all, name)
	}
	if schedule, ok := all["schedule"].(map[string]any); ok {
		for _, name := range answered[1] {
			delete(schedule, name)
		}
	}
	return all, nil
}

// edited lets a person change a job in their editor, and returns the differences.
func (s jobCommands) edited(j client.Job) (fields, error) {
	f, ok := s.in.(*os.File)
	if !ok || !terminal(f) {
		return nil, usage{errors.New("nothing to change; want a flag such as --priority 3, or --body @file (an editor needs a terminal)")}
	}
	before, err := editable(j)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	if data, err = yamlOf(data); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "carillon-job-*.yaml")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	_, err = fmt.Fprintf(file, "# The job %s. Save and exit to change it; exit without changes to leave it unchanged.\n%s", line(j.Name), data)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	cmd := exec.Command("sh", "-c", editor+` "$1"`, "sh", file.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f, s.err, s.err
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor %q: %w; nothing was changed", editor, err)
	}
	if data, err = os.ReadFile(file.Name()); err != nil {
		return nil, err
	}
	return changes(before, data)
}

// changes returns the changes in an edited job; removed fields get their defaults.
func changes(before fields, text []byte) (fields, error) {
	data, err := jsonOf(text)
	if err != nil {
		return nil, usage{fmt.Errorf("the text is not YAML: %w; nothing was changed", err)}
	}
	after, err := decodeFields(data)
	if err != nil {
		return nil, usage{fmt.Errorf("the text is not an object: %w; nothing was changed", err)}
	}
	return different(before, after, ""), nil
}

// different returns the changed part of an object. The server merges objects member by member, so removed members are
// null in it, except in objects that it replaces whole.
func different(before, after fields, path string) fields {
	out := fields{}
	for name, value := range after {
		was, wasObject := before[name].(map[string]any)
		is, isObject := value.(map[string]any)
		switch {
		case reflect.DeepEqual(before[name], value):
		case wasObject && isObject && !slices.Contains([]string{"execution.headers", "execution.env", "execution.payload"}, path+name) &&
			reflect.DeepEqual(was["target"], is["target"]): // another target keeps only what is sent
			out[name] = different(was, is, path+name+".")
		default:
			out[name] = value
		}
	}
	for name, value := range before {
		if _, ok := after[name]; !ok && value != nil {
			out[name] = nil
		}
	}
	return out
}
