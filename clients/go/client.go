// Package volley is a client of the native API of the software router Volley. It uses the standard library only.
package volley

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client is a router's native API. Each call has a connection of its own, so a client survives restarts of the
// router, and goroutines may share it.
type Client struct {
	http http.Client
}

// New returns a client for the socket of the native API, such as /run/volley/http.sock.
func New(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Client{http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// About describes the running router.
type About struct {
	Version string `json:"version"`
	// Generation is that of the configuration: each change makes another one.
	Generation uint64 `json:"generation"`
}

// Change says what a request has changed, or what it would change.
type Change struct {
	// Generation of the configuration after the request.
	Generation uint64 `json:"generation"`
	// Changed is false if the configuration already was as wanted, and after a dry run.
	Changed bool `json:"changed"`
	// Difference has the commands that the change removes ("- ") and adds ("+ ").
	Difference []string `json:"difference"`
	// IsCut is true if the difference is longer than what is listed.
	IsCut    bool     `json:"is_cut"`
	Warnings []string `json:"warnings"`
	Notes    []string `json:"notes"`
	// RollsBackIn is the number of seconds after which the change is rolled back unless it is confirmed; 0: never.
	RollsBackIn uint64 `json:"rolls_back_in"`
}

// Tag returns the tag of the configuration after the change, for Options.IfMatch.
func (c Change) Tag() string {
	return strconv.Quote(strconv.FormatUint(c.Generation, 10))
}

// Options of a change.
type Options struct {
	// IfMatch is the tag that the configuration must still have; otherwise IsConflict is true for the error. Empty: any.
	IfMatch string
	// DryRun only reports what would change.
	DryRun bool
	// ConfirmWithin rolls the change back after this time, in whole seconds, unless Confirm is called. 0: never.
	ConfirmWithin time.Duration
}

// Fault is a fault of a document that was sent.
type Fault struct {
	Detail string `json:"detail"`
	// Pointer is its place in the document, a JSON Pointer (RFC 6901).
	Pointer string `json:"pointer"`
}

// Refused is the error of a request that the router refuses. It has changed nothing.
type Refused struct {
	Status int     `json:"status"`
	Detail string  `json:"detail"`
	Faults []Fault `json:"faults"`
}

func (r *Refused) Error() string {
	lines := []string{r.Detail}
	for _, fault := range r.Faults {
		lines = append(lines, strings.TrimPrefix(fault.Pointer+": "+fault.Detail, ": "))
	}
	return strings.Join(lines, "\n")
}

// IsConflict is true for the error of a change whose IfMatch is not the tag of the configuration: read the
// configuration again, and repeat the change.
func IsConflict(err error) bool {
	var refused *Refused
	return errors.As(err, &refused) && refused.Status == http.StatusPreconditionFailed
}

// Result is a command that was run.
type Result struct {
	Command string `json:"command"`
	// Output is JSON of a show command, otherwise a text; empty if there is none.
	Output json.RawMessage `json:"output"`
	// Error says why the command failed; empty if it succeeded.
	Error string `json:"error"`
}

// InterfaceState is the state of an interface.
type InterfaceState struct {
	Name    string `json:"name"`
	Index   uint32 `json:"index"`
	AdminUp bool   `json:"admin_up"`
	LinkUp  bool   `json:"link_up"`
	MTU     uint16 `json:"mtu"`
}

// Event of a watch. One of the members is set.
type Event struct {
	// Generation that the configuration has now.
	Generation *uint64 `json:"generation"`
	// Interface that is new, or whose state has changed to this.
	Interface *InterfaceState `json:"interface"`
	// Removed is the name of an interface that was removed.
	Removed *string `json:"removed"`
	// Complete follows the state at the beginning.
	Complete bool `json:"complete"`
}

// About returns the router's version, and the generation of its configuration.
func (c *Client) About(ctx context.Context) (about About, err error) {
	_, err = c.ask(ctx, "GET", "/v1", nil, nil, &about)
	return about, err
}

// Config reads the configuration into a value as json.Unmarshal does, and returns its tag, for Options. A struct may
// have only some of the members; change them by Patch. For Replace, read into a map[string]any.
func (c *Client) Config(ctx context.Context, into any) (tag string, err error) {
	headers, err := c.ask(ctx, "GET", "/v1/config", nil, nil, into)
	if err != nil {
		return "", err
	}
	tag = headers.Get("ETag")
	if tag == "" {
		return "", errors.New("routes are being loaded: try again later")
	}
	return tag, nil
}

// Replace replaces the configuration, all or nothing.
func (c *Client) Replace(ctx context.Context, config any, options Options) (Change, error) {
	return c.change(ctx, "PUT", "/v1/config", config, options)
}

// Patch changes the parts of the configuration that the patch names, all or nothing (RFC 7396): null removes a
// member, and lists are replaced as a whole.
func (c *Client) Patch(ctx context.Context, patch any, options Options) (Change, error) {
	return c.change(ctx, "PATCH", "/v1/config", patch, options)
}

// Confirm keeps this change, which was made with ConfirmWithin. It is refused if another change is to be confirmed, or if
// this one was rolled back.
func (c *Client) Confirm(ctx context.Context, change Change) (Change, error) {
	return c.change(ctx, "POST", "/v1/config/confirm", nil, Options{IfMatch: change.Tag()})
}

// Rollback rolls back the last changes. Rolling back again goes further back. Of the options, IfMatch and DryRun apply.
func (c *Client) Rollback(ctx context.Context, changes int, options Options) (Change, error) {
	return c.change(ctx, "POST", "/v1/config/rollback", map[string]int{"changes": changes}, options)
}

// Show reads the output of a show command into a value, as json.Unmarshal does: Show(ctx, "interface host-eth1", &ports).
func (c *Client) Show(ctx context.Context, command string, into any) error {
	path := "/v1/show"
	for _, word := range strings.Fields(command) {
		path += "/" + url.PathEscape(word)
	}
	_, err := c.ask(ctx, "GET", path, nil, nil, into)
	return err
}

// Run runs commands in order, each a change of its own, until one fails: the last result then has the error.
func (c *Client) Run(ctx context.Context, commands ...string) ([]Result, error) {
	var answer struct {
		Results  []Result `json:"results"`
		Complete bool     `json:"complete"`
	}
	_, err := c.ask(ctx, "POST", "/v1/commands", nil, map[string][]string{"commands": commands}, &answer)
	if err == nil && !answer.Complete && len(answer.Results) > 0 {
		failed := answer.Results[len(answer.Results)-1]
		err = fmt.Errorf("%s: %s", failed.Command, failed.Error)
	}
	return answer.Results, err
}

// Watch gives the generation and all interfaces to see, then Complete, and then each change of them. It ends with the
// context's error, with that of see, or when the router stops.
func (c *Client) Watch(ctx context.Context, see func(Event) error) error {
	answer, err := c.send(ctx, "GET", "/v1/watch", nil, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		// The router sends an empty line after 15 s without events.
		if len(lines.Bytes()) == 0 {
			continue
		}
		var event Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return err
		}
		if err := see(event); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.New("the router ended the watch: watch again")
}

func (c *Client) change(ctx context.Context, method, path string, body any, options Options) (change Change, err error) {
	query := url.Values{}
	if options.DryRun {
		query.Set("dry-run", "true")
	}
	if options.ConfirmWithin != 0 {
		query.Set("confirm", strconv.FormatInt(int64(options.ConfirmWithin/time.Second), 10))
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	headers := http.Header{}
	if options.IfMatch != "" {
		headers.Set("If-Match", options.IfMatch)
	}
	_, err = c.ask(ctx, method, path, headers, body, &change)
	return change, err
}

// ask sends a request with a JSON body, if there is one, and reads the JSON answer into a value.
func (c *Client) ask(ctx context.Context, method, path string, headers http.Header, body, into any) (http.Header, error) {
	answer, err := c.send(ctx, method, path, headers, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	decoder := json.NewDecoder(answer.Body)
	// Numbers in a map[string]any keep all their digits.
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return nil, fmt.Errorf("the answer broke off, or is not as expected: %w", err)
	}
	return answer.Header, nil
}

// send sends a request. The caller closes the body of the answer.
func (c *Client) send(ctx context.Context, method, path string, headers http.Header, body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://volley"+path, sent)
	if err != nil {
		return nil, err
	}
	if headers != nil {
		request.Header = headers
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 400 {
		return answer, nil
	}
	defer answer.Body.Close()
	refused := &Refused{}
	if err := json.NewDecoder(answer.Body).Decode(refused); err != nil {
		refused.Detail = answer.Status
	}
	refused.Status = answer.StatusCode
	return nil, refused
}
